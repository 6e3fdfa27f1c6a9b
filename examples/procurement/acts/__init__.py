"""The acts of the demo that end at the bank: one module each, played by the demo and by the tests.

    director    a payment above £25,000 waits for a person
    friday      three things changed while it waited
    revoked     the one who may go on may no longer
    killed      the process died when the bank had paid and the ledger did not know
    january     a month of payments, with a bank that fails and a payer that dies

`play` does it and returns what was found; `claims` says what has to be so; `tell` is for people.
"""
