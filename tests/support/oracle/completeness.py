"""Which ids must be where by a producer's oracle, beside what the stream holds: N1 to the single record.

Every (window, key), late records included, holds exactly the ids that were acknowledged; a record of unknown outcome 0
or 1 times; one that failed or was aborted never.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from cutover.lake.journal_rows import Loss
from cutover.reconcile.verify.facts.facts import VerifyFacts
from cutover.records.classes import Class
from cutover.records.reference import UncountedPair
from tests.support.oracle.records import Oracle, OracleRecord

Cell = tuple[int, tuple[object, ...]]  # window start in microseconds, key


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedRow:
    """A (window, key) as the stream holds it, accepted and late together."""

    n: int
    ids: int
    squares: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRows:
    """All that a stream holds of single records."""

    cells: Mapping[Cell, CountedRow] = field(default_factory=dict)
    ledger: frozenset[UncountedPair] = frozenset()


_NOTHING = CountedRow(n=0, ids=0, squares=0)
_MOST_TRIED = 200_000  # choices of unknown records that are tried for one cell


def check(facts: VerifyFacts, held_rows: HeldRows, oracle: Oracle) -> Iterator[str]:
    """Yield every cell that does not hold exactly its ids, and every class whose positions are not those sent."""
    if not facts.records:
        return
    sent = [one for one in oracle.sent if _may_count(facts, one)]
    yield from _cells(held_rows.cells, [one for one in sent if one.intended == "accepted"])
    yield from _positions(facts, held_rows.ledger, sent)


def _may_count(facts: VerifyFacts, oracle_record: OracleRecord) -> bool:
    """Return whether a record may be in the books: of the log that was read, not aborted, before the newest cut."""
    newest = facts.records[-1]
    if oracle_record.outcome in {"failed", "aborted"} or oracle_record.topic_id != newest.topic_id:
        return False
    if oracle_record.offset is None:
        return oracle_record.outcome == "unknown"
    is_read = oracle_record.offset < newest.end.get(oracle_record.partition, 0)
    return is_read and not any(_holds(loss, facts, oracle_record) for loss in facts.losses)


def _holds(loss: Loss, facts: VerifyFacts, oracle_record: OracleRecord) -> bool:
    """Return whether a record was lost: in the recorded gap; before the first epoch of a version opened anew.

    Of a loss inside a range the oracle itself is told which records went before anybody read them.
    """
    if (
        (loss.topic_id, loss.partition) != (oracle_record.topic_id, oracle_record.partition)
        or oracle_record.offset is None
        or loss.kind == "inside"
    ):
        return False
    began = facts.records[0].start.get(oracle_record.partition, 0) if loss.kind == "anew" else loss.first
    first, end = (0, began) if loss.kind == "anew" else (loss.first, loss.next)
    return first <= oracle_record.offset and (end is None or oracle_record.offset < end)


def _cells(cells: Mapping[Cell, CountedRow], oracle_records: Sequence[OracleRecord]) -> Iterator[str]:
    acked: dict[Cell, list[int]] = defaultdict(list)
    unknown: dict[Cell, list[int]] = defaultdict(list)
    for one in oracle_records:
        if one.window_start is not None:
            (acked if one.outcome == "acked" else unknown)[one.window_start, one.key].append(one.id)
    for cell in sorted({*cells, *acked}, key=str):
        found, must, may = cells.get(cell, _NOTHING), sum_ids(acked[cell]), unknown[cell]
        counted_row = CountedRow(n=found.n - must.n, ids=found.ids - must.ids, squares=found.squares - must.squares)
        if not may_be(counted_row, may):
            text = f"Window {cell[0]}, key {cell[1]!r}: expected the {must.n:,} acknowledged records"
            text += f" (ids {must.ids}, squares {must.squares})" + (f" and up to {len(may)} more" if may else "")
            yield f"{text}, got {found.n:,} (ids {found.ids}, squares {found.squares})."


def sum_ids(ids: Sequence[int]) -> CountedRow:
    """Return what ids add up to if each counts once."""
    return CountedRow(n=len(ids), ids=sum(ids), squares=sum(i * i for i in ids))


def may_be(counted_row: CountedRow, unknown: Sequence[int]) -> bool:
    """Return whether some of the unknown ids, each at most once, add up to a rest."""
    if not 0 <= counted_row.n <= len(unknown):
        return False
    for tried, some in enumerate(combinations(unknown, counted_row.n)):
        if sum_ids(some) == counted_row:
            return True
        if tried > _MOST_TRIED:
            return True  # too many to tell apart: the number of records fits
    return False


def _positions(
    facts: VerifyFacts, ledger: frozenset[UncountedPair], oracle_records: Sequence[OracleRecord]
) -> Iterator[str]:
    """Yield each class whose records in the ledger are not those that were sent to be of it."""
    acked = [one for one in oracle_records if one.outcome == "acked"]
    for name in (Class.MALFORMED, Class.FUTURE):
        wanted = {(one.partition, one.offset) for one in acked if one.intended == name.value}
        found = {(row.partition, row.offset) for row in ledger if row.cls is name}
        may = sum(one.outcome == "unknown" and one.intended == name.value for one in oracle_records)
        for what, places in (("missing", wanted - found), ("not sent as such", found - wanted)):
            if places and (what == "missing" or len(places) > may):
                yield f"Ledger, {name}: {len(places)} positions {what}, the first is {min(places)}."
    filtered = sum(record.counts.get(Class.FILTERED, 0) for record in facts.records)
    must = sum(one.intended == Class.FILTERED.value for one in acked)
    may = sum(one.outcome == "unknown" and one.intended == Class.FILTERED.value for one in oracle_records)
    if not must <= filtered <= must + may:
        yield f"Filtered records: expected {must:,} acknowledged and up to {may:,} more, got {filtered:,}."
    late = {(row.partition, row.offset) for row in ledger if row.cls is Class.LATE}
    strange = late - {(one.partition, one.offset) for one in acked if one.intended == "accepted"}
    if len(strange) > sum(one.outcome == "unknown" for one in oracle_records):
        yield f"Ledger, late: {len(strange)} positions were not sent to count, the first is {min(strange)}."
