"""Procurement: one purchase run for each payment that HM Treasury published, on SQLite.

To see how Remit is used, read `invoice` first: a flow that pays, with its rules.

    invoice     an invoice is paid by the bank, behind the gate
    bank/       the outside world: a payment service in a process of its own
    edited      the same flow, after somebody edited a figure
    payer       the process that goes on with what is open, and that gets killed
    stage       the bank, the ledgers and the people of the acts
    acts/       a director, a Friday, a revocation, a kill, a month: each is also a test

The story before that, of purchases that are proposed on paper, in the order in which one travels:

    payments    what the published files say, in whole pence
    desk        where the steps leave papers, and marks that are counted outside Remit
    flow        the purchase: validate, look for duplicates, classify, decide, write
    worker      the process that runs a month of purchases, and that gets killed
    watch       a worker, seen from outside
    ledger      what Remit has on the disk, read through Remit
    tamper      somebody with SQL access edits a decision
    trusting    the resume that would believe it
    claims      what the demo says of itself, checked
    show        how it looks; show_acts for the acts at the bank
    demo        the story: `python -m examples.procurement.demo`
"""
