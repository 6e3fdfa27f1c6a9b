"""What the stateful test is made of: a world in which everything can go wrong, and a small model of what may happen.

world    the outside, which counts what lands; a store that dies and loses answers; the flow
model    who may what, told by a few dictionaries that no code of Remit's has touched
"""
