"""Random flows, played through random lives.

shape     what a flow does with its calls: a tree, drawn from a seed
outside   what is reached by them, counts them, and knows what the store wrote
player    a shape as a flow, and the log of what its calls gave it
life      turns, deaths, people and clocks, drawn from the same seed
truth     what must be so after each turn and at the end
"""
