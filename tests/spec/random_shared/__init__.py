"""Runs of several flows, side by side at one ledger, that share ceilings, business keys, a directory and a policy.

law       what may reach the outside, told by a few lists of who did what between which two moments
outside   what is reached: it asks the law at each arrival, pays, and loses answers; and a store that says when it wrote
desk      people: roles, policy, answers to questions, what became of doubts, cancellations
flows     a flow as the code of a run is at this moment
story     turns, deaths, people and clocks, drawn from one seed
"""
