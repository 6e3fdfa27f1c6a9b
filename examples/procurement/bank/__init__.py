"""The bank: a payment service in a process of its own, which knows nothing of Remit.

It stands for whatever an effect reaches. What it counts is what happened outside, and it
fails on demand in each way in which a network can: before the payment, after it, or never
answering. In the order in which a payment travels:

    client      what a caller calls; tells "nothing was sent" from "nobody knows"
    service     HTTP: requests in, answers out
    faults      what goes wrong on demand, and who is held until released
    order       what is asked, and what is answered
    book        which payments were made, in SQLite
    process     the service in a process of its own, for the demo and the tests

    python -m examples.procurement.bank --db bank.db --port 0
"""
