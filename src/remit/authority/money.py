"""Money in words. How many minor units make a whole one is the currency's own affair, and nobody tells it here.

So an amount is never shown as pounds or yen: whoever reads "200,000 GBP" where pence are meant
takes it for a hundred times as much.
"""

from __future__ import annotations


def money(amount: str, currency: str) -> str:
    """An amount as it is counted. A rule without a currency counts whatever the field does, which is said as a number.

    >>> money("200,000", "GBP"), money("3", "")
    ('200,000 minor units of GBP', '3')
    """
    return f"{amount} minor units of {currency}" if currency else amount
