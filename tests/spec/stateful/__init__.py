"""What the stateful tests are made of: a world in which everything can go wrong, and a small model of what may happen.

world         the outside, which counts what lands; a store that dies and loses answers; the flow
model         who may what, told by a few dictionaries that no code of Remit's has touched
rules_world   contracts and policies that say different things; a store in which others act meanwhile
rules_model   what all of them together demand, told likewise
rules_office  what people do to the rules, and what is seen of each write and each call
rules_turns   turns, and what is so after each
"""
