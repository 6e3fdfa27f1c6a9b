"""Procurement: one purchase run for each payment that HM Treasury published, on SQLite.

In the order in which a payment travels:

    payments    what the published files say, in whole pence
    desk        where the steps leave papers, and marks that are counted outside Remit
    flow        the purchase: validate, look for duplicates, classify, decide, write
    worker      the process that runs a month of purchases, and that gets killed
    watch       a worker, seen from outside
    ledger      what Remit has on the disk, read through Remit
    tamper      somebody with SQL access edits a decision
    trusting    the resume that would believe it
    claims      what the demo says of itself, checked
    demo        the story: `python -m examples.procurement.demo`
"""
