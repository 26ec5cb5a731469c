"""What each nine of agreement buys: how many rows may differ, whether the stream holds it alone, what batch adds."""

from collections.abc import Iterator

from cutover.reconcile.result.cost import Agreement, Nine

MOST = 9


def price(agreement: Agreement, core_seconds: float | None) -> tuple[Nine, ...]:
    """Return the nines up to the first at which no row may differ.

    Args:
        agreement: Rows compared and different; how windows settle.
        core_seconds: What batch has used; None: not known.
    """
    return tuple(_list_nines(agreement, core_seconds))


def _list_nines(agreement: Agreement, core_seconds: float | None) -> Iterator[Nine]:
    for nines in range(1, MOST + 1):
        may_differ = agreement.rows // 10**nines
        bought = max(0, agreement.different - may_differ)
        yield Nine(
            nines=nines,
            may_differ=may_differ,
            bought=bought,
            core_seconds_per_row=round(core_seconds / bought, 6) if bought and core_seconds is not None else None,
            settled_minutes=find_settled(agreement, 10.0**-nines),
        )
        if not may_differ:
            return


def find_settled(agreement: Agreement, largest_share: float) -> float | None:
    """Return the first age, minutes, from which on 99 % of the windows miss at most a share of their records."""
    found = None
    for minutes, share in reversed(agreement.settlement):
        if share > largest_share:
            break
        found = minutes
    return found
