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
_MAX_DELAY = 20_000  # milliseconds between a transfer and its record in the log
_MAX_CENTS = 500_000


def generate_transfers(*, count: int, accounts: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield transfers in log order.

    Args:
        count: Number of transfers.
        accounts: Number of accounts, at least 2.
        seed: The same seed gives the same transfers.

    Yields:
        `id`, `payer`, `payee`, `amount` (at most two decimals), `at` and `logged` (milliseconds since 1970).
    """
    rng = random.Random(seed)  # noqa: S311 -- a sample, no secret
    for number in range(count):
        payer, payee = rng.sample(range(accounts), 2)
        logged = BEGINS + number * _STEP
        cents = rng.randint(1, _MAX_CENTS)
        yield {
            "id": number,
            "payer": f"account-{payer:04}",
            "payee": f"account-{payee:04}",
            "amount": cents / 100,
            "at": logged - rng.randint(0, _MAX_DELAY),
            "logged": logged,
        }


def main(
    count: Annotated[int, typer.Option(min=1, help="Number of transfers.")] = 10_000,
    accounts: Annotated[int, typer.Option(min=2, help="Number of accounts.")] = 100,
    seed: Annotated[int, typer.Option(help="The same seed gives the same transfers.")] = 1,
) -> None:
    """Write transfers as JSON lines."""
    for record in generate_transfers(count=count, accounts=accounts, seed=seed):
        sys.stdout.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    typer.run(main)
