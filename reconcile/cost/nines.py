"""Costs of each nine of agreement: rows that may differ, and the wait if the stream alone reaches it, else batch."""

from collections.abc import Iterator

from cutover.reconcile.result.cost import Agreement, Nine
from cutover.reconcile.result.settlement import FEW, AgreementPoint

MOST = 9


def price(agreement: Agreement, core_seconds: float | None) -> tuple[Nine, ...]:
    """Return the nines up to the first at which no row may differ.

    Args:
        agreement: Rows compared and different, and by age.
        core_seconds: What batch has used; None: not known.
    """
    return tuple(_list_nines(agreement, core_seconds))


def _list_nines(agreement: Agreement, core_seconds: float | None) -> Iterator[Nine]:
    for nines in range(1, MOST + 1):
        may_differ = agreement.rows // 10**nines
        bought = max(0, agreement.different - may_differ)
        settled = None if bought else find_settled(agreement, nines)
        yield Nine(
            nines=nines,
            may_differ=may_differ,
            bought=bought,
            core_seconds_per_row=round(core_seconds / bought, 6) if bought and core_seconds is not None else None,
            settled_minutes=settled.minutes if settled else None,
            settled_windows=settled.windows if settled else None,
            is_never_settled=bool(bought),
        )
        if not may_differ:
            return


def find_settled(agreement: Agreement, nines: int) -> AgreementPoint | None:
    """Return the first age from which on the stream's answers differ in no larger share of their rows.

    Late records are dropped, so after closing nothing changes. An age at which few windows are known, or fewer rows
    than can show the share, decides nothing; the closing holds all rows, and lacks windows alone. Of a replay, whose
    epochs read hours at once, no age before closing decides.
    """
    settled = None
    for point in reversed(agreement.by_age):
        is_final = point is agreement.by_age[-1]
        is_early_guess = not is_final and (agreement.is_replay or point.rows < 10**nines)
        if point.windows < FEW or is_early_guess:
            continue
        if point.different > point.rows // 10**nines:
            break
        settled = point
    return settled
