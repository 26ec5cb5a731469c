"""Check of a stream's rows against batch where records have ids: one of two twins counts, not always the same one."""

from collections.abc import Mapping
from typing import TypeVar

from cutover.records.classes import Class
from cutover.records.reference import Result

Row = TypeVar("Row")
Group = tuple[int, int, tuple[object, ...]]


def counted_sql(relation: str, batch: Result) -> str:
    """Return rows of the partial shape without the late ones that batch calls duplicates: it counts their twins."""
    twins = ", ".join(f"({p}, {o})" for p, o in sorted({at[:2] for at in _at(batch, Class.DUPLICATE)}))
    if not twins:
        return relation
    place = "(_positions[1].partition::BIGINT, _positions[1].offset)"
    return f"(SELECT * FROM {relation} WHERE NOT (_class = '{Class.LATE}' AND {place} IN ({twins})))"  # noqa: S608 -- ours


def select_settled(rows: Mapping[Group, Row], stream: Result, batch: Result) -> dict[Group, Row]:
    """Return the rows of windows in which both sides count the same of each twins."""
    apart = find_swapped_windows(stream, batch)
    return {group: row for group, row in rows.items() if group[0] not in apart}


def find_swapped_windows(stream: Result, batch: Result) -> set[int | None]:
    """Return the starts of the windows in which the sides count different records of some twins."""
    streaming_duplicates, batch_duplicates = _at(stream, Class.DUPLICATE), _at(batch, Class.DUPLICATE)
    return {at[2] for at in (streaming_duplicates ^ batch_duplicates) - _at(stream, Class.LATE)}


def _at(result: Result, cls: Class) -> set[tuple[int, int, int | None]]:
    return {(row.partition, row.offset, row.window_start) for row in result.ledger if row.cls is cls}
