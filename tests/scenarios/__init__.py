"""Scenarios: nine ways in which durable work goes wrong, played for real and counted at the bank.

    purchase    the flow: an order is written, goods arrive, a payment leaves by the bank
    worker      a process that goes on with it, and is killed, frozen or doubled
    stage       a folder, a ledger with its people, and the bank in a process of its own
    attacker    what somebody with write access to the database does
    scenes      the nine, each played to its end
    table       what became of them, as one table

The bank deduplicates nothing and no effect says that it does: a second call is a second payment.
"""
