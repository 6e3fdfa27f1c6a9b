"""What makes it happen. Top to bottom, each room knows only those below it:

people     what others do about a run without holding it
runs       a run from its opening to its end, one attempt after another
boundary   the way to the outside, through the gate
turn       one worker's turn: its journal and its replay
process    what one process knows and holds
declared   what a user declares
"""
