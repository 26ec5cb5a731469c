"""Completeness by a producer's oracle: N1 to the single record.

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
    """Single records that a stream holds."""

    cells: Mapping[Cell, CountedRow] = field(default_factory=dict)
    ledger: frozenset[UncountedPair] = frozenset()


_NOTHING = CountedRow(n=0, ids=0, squares=0)
_MOST_TRIED = 200_000  # choices of unknown records that are tried for one cell


def check(facts: VerifyFacts, held_rows: HeldRows, oracle: Oracle) -> Iterator[str]:
    """Yield every cell that does not hold exactly its ids, and every class whose positions are not those sent."""
    if not facts.records:
        return
    countable = [record for record in oracle.records if _may_count(facts, record)]
    yield from _cells(held_rows.cells, [record for record in countable if record.intended == "accepted"])
    yield from _positions(facts, held_rows.ledger, countable)


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
    """Return whether a record was lost: in the recorded gap; before the first epoch of a version that was opened again.

    For a loss inside a range the oracle itself is given the records that were deleted before they were read.
    """
    if (
        (loss.topic_id, loss.partition) != (oracle_record.topic_id, oracle_record.partition)
        or oracle_record.offset is None
        or loss.kind == "inside"
    ):
        return False
    opening = facts.records[0].start.get(oracle_record.partition, 0) if loss.kind == "anew" else loss.first
    first_lost, end = (0, opening) if loss.kind == "anew" else (loss.first, loss.next)
    return first_lost <= oracle_record.offset and (end is None or oracle_record.offset < end)


def _cells(cells: Mapping[Cell, CountedRow], oracle_records: Sequence[OracleRecord]) -> Iterator[str]:
    acked: dict[Cell, list[int]] = defaultdict(list)
    unknown: dict[Cell, list[int]] = defaultdict(list)
    for oracle_record in oracle_records:
        if oracle_record.window_start is not None:
            (acked if oracle_record.outcome == "acked" else unknown)[
                oracle_record.window_start, oracle_record.key
            ].append(oracle_record.id)
    for cell in sorted({*cells, *acked}, key=str):
        counted, must, may = cells.get(cell, _NOTHING), sum_ids(acked[cell]), unknown[cell]
        counted_row = CountedRow(
            n=counted.n - must.n, ids=counted.ids - must.ids, squares=counted.squares - must.squares
        )
        if not may_be(counted_row, may):
            text = f"Window {cell[0]}, key {cell[1]!r}: expected the {must.n:,} acknowledged records"
            text += f" (ids {must.ids}, squares {must.squares})" + (f" and up to {len(may)} more" if may else "")
            yield f"{text}, got {counted.n:,} (ids {counted.ids}, squares {counted.squares})."


def sum_ids(ids: Sequence[int]) -> CountedRow:
    """Return what ids add up to if each counts once."""
    return CountedRow(n=len(ids), ids=sum(ids), squares=sum(i * i for i in ids))


def may_be(counted_row: CountedRow, unknown: Sequence[int]) -> bool:
    """Return whether some of the unknown ids, each at most once, add up to a rest."""
    if not 0 <= counted_row.n <= len(unknown):
        return False
    for attempts, some in enumerate(combinations(unknown, counted_row.n)):
        if sum_ids(some) == counted_row:
            return True
        if attempts > _MOST_TRIED:
            return True  # too many to distinguish: the number of records fits
    return False


def _positions(
    facts: VerifyFacts, ledger: frozenset[UncountedPair], oracle_records: Sequence[OracleRecord]
) -> Iterator[str]:
    """Yield each class whose records in the ledger are not those that were sent to be of it."""
    acked = [record for record in oracle_records if record.outcome == "acked"]
    for name in (Class.MALFORMED, Class.FUTURE):
        expected_positions = {(record.partition, record.offset) for record in acked if record.intended == name.value}
        ledger_positions = {(row.partition, row.offset) for row in ledger if row.cls is name}
        may = sum(record.outcome == "unknown" and record.intended == name.value for record in oracle_records)
        for problem, places in (
            ("missing", expected_positions - ledger_positions),
            ("not sent as such", ledger_positions - expected_positions),
        ):
            if places and (problem == "missing" or len(places) > may):
                yield f"Ledger, {name}: {len(places)} positions {problem}, the first is {min(places)}."
    filtered = sum(record.counts.get(Class.FILTERED, 0) for record in facts.records)
    must = sum(record.intended == Class.FILTERED.value for record in acked)
    may = sum(record.outcome == "unknown" and record.intended == Class.FILTERED.value for record in oracle_records)
    if not must <= filtered <= must + may:
        yield f"Filtered records: expected {must:,} acknowledged and up to {may:,} more, got {filtered:,}."
    late = {(row.partition, row.offset) for row in ledger if row.cls is Class.LATE}
    strange = late - {(record.partition, record.offset) for record in acked if record.intended == "accepted"}
    if len(strange) > sum(record.outcome == "unknown" for record in oracle_records):
        yield f"Ledger, late: {len(strange)} positions were not sent to count, the first is {min(strange)}."
