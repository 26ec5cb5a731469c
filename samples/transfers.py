"""Bank transfers: `python -m cutover.samples.transfers > transfers.jsonl`, for `pipelines/transfers.py`.

One record moves an amount from a payer to a payee, so that at any cut of the log all balances add up to zero.
"""

import json
import random
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

BEGINS = 1_772_366_400_000  # 2026-03-01T12:00:00Z, milliseconds
_STEP = 250  # milliseconds between two transfers
_LATEST = 20_000  # milliseconds that a transfer waits at most before it is in the log
_LARGEST = 500_000  # cents


def records(*, count: int, accounts: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield transfers in the order in which they reach the log.

    Args:
        count: How many.
        accounts: How many accounts take part; at least 2.
        seed: The same seed gives the same transfers.

    Yields:
        `id`, `payer`, `payee`, `amount` (two digits at most), `at` and `logged` (milliseconds since 1970).
    """
    chance = random.Random(seed)  # noqa: S311 -- a sample, no secret
    for number in range(count):
        payer, payee = chance.sample(range(accounts), 2)
        logged = BEGINS + number * _STEP
        cents = chance.randint(1, _LARGEST)
        yield {
            "id": number,
            "payer": f"account-{payer:04}",
            "payee": f"account-{payee:04}",
            "amount": cents / 100,
            "at": logged - chance.randint(0, _LATEST),
            "logged": logged,
        }


def main(
    count: Annotated[int, typer.Option(min=1, help="Transfers.")] = 10_000,
    accounts: Annotated[int, typer.Option(min=2, help="Accounts that take part.")] = 100,
    seed: Annotated[int, typer.Option(help="The same seed gives the same transfers.")] = 1,
) -> None:
    """Write transfers as JSON lines."""
    for record in records(count=count, accounts=accounts, seed=seed):
        sys.stdout.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    typer.run(main)
