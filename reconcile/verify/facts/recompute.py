"""Epochs recomputed by plain Python from the log, beside the rows that stand for them; folds beside what they fold."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or ours

import random
from collections.abc import Iterable, Sequence
from functools import partial

from cutover.lake.control import pins
from cutover.lake.dimensions.rejoin import Rejoin
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.integrity import lost_records
from cutover.lake.integrity.lost_records import LostRecords, record_bounds
from cutover.log.kafka import RawRecord
from cutover.quoting import identifier
from cutover.reconcile.comparison.equal import plain
from cutover.reconcile.verify.facts import known_ids, log_counts, results, rows
from cutover.reconcile.verify.facts.facts import Group, Prefix, RecomputedPortion, Refold, VerifyFacts
from cutover.reconcile.verify.facts.log_counts import SameLog
from cutover.reconcile.verify.facts.segments import Segment, segments
from cutover.reconcile.verify.facts.source import ROWS, Source
from cutover.reconcile.verify.model import moment
from cutover.records import reference
from cutover.records.fold import finish_sql
from cutover.records.reference import ResultRow

MOST = 4_000  # records that plain Python recomputes where not all are asked for: about a second


def prefix(source: Source, facts: VerifyFacts) -> Prefix:
    """Recompute the newest epoch, the pinned ones and a sample of the others; all that the log holds if asked for.

    Raises:
        LogError: No broker answers, or the topic is another log by now.
    """
    if not facts.records:
        return Prefix(portions=(), of_epochs=0, sampled=False, seed=source.asked.seed)
    return log_counts.read_retained(source, facts, partial(_recompute, source, facts))


def _recompute(source: Source, facts: VerifyFacts, log: SameLog) -> Prefix:
    by_number = {record.epoch: record for record in facts.records}
    segments = _list_segments(source, facts.records)
    whole = [s for s in segments if all(e in by_number for e in range(s.first, s.last + 1))]
    held = [s for s in whole if all(log.holds(by_number[e]) for e in range(s.first, s.last + 1))]
    rejoin, there = Rejoin(source.settings, facts.pipeline), len(held)
    held = [s for s in held if rejoin.explain_unreadable(rejoin.collect_recorded(_select_records(facts, s))) is None]
    pinned = pins.list_pinned_epochs(source.settings, source.version, now=source.asked.now)
    chosen = held if source.asked.every else sample_segments(held, facts.records, pinned, seed=source.asked.seed)
    portions: list[RecomputedPortion] = []
    lost: list[LostRecords] = []
    for segment in chosen:
        records = _select_records(facts, segment)
        raw = list(log.client.read_ranges(log.topic, log.ranges(records), log.isolation))
        gone = _find_lost(facts, log, records, raw)
        lost += gone
        if not gone:
            portions.append(_portion(source, facts, segment, raw, rejoin))
    return Prefix(
        portions=tuple(portions),
        of_epochs=sum(record.records > 0 for record in facts.records),
        sampled=len(chosen) < len(held),
        seed=source.asked.seed,
        folds=tuple(_folds(source, facts)),
        left_out=_describe_left_out((len(segments) - len(whole), len(whole) - there, there - len(held)), len(segments)),
        lost=lost_records.format_lost(lost),
    )


def _find_lost(
    facts: VerifyFacts, log: SameLog, epoch_records: Sequence[EpochRecord], raw: Sequence[RawRecord]
) -> tuple[LostRecords, ...]:
    """Return the epochs of a portion whose records the log has lost; they are counted only where some are missing."""
    window = facts.pipeline.window
    if len(raw) >= sum(record_bounds(record.counts, window)[0] for record in epoch_records):
        return ()
    return log_counts.find_lost(log, epoch_records, window)


_WHYS = (
    "the record of an epoch in them is missing",
    "their records have left the log",
    "the version of a dimension can no longer be read",
)


def _describe_left_out(counts: tuple[int, int, int], of: int) -> str:
    counted = zip(counts, _WHYS, strict=True)
    return " ".join(f"{n:,} of {of:,} portions cannot be recomputed: {why}." for n, why in counted if n)


def _select_records(facts: VerifyFacts, segment: Segment) -> list[EpochRecord]:
    return [r for r in facts.records if segment.first <= r.epoch <= segment.last]


def _list_segments(source: Source, records: Sequence[EpochRecord]) -> list[Segment]:
    """Return all segments, and the epochs with records of which none was accepted."""
    known = {record.epoch for record in records}
    found = segments(
        records, (label for (label,) in source.connection.execute(rows.LABELS).fetchall() if label in known)
    )
    inside = {epoch for segment in found for epoch in range(segment.first, segment.last + 1)}
    alone = [Segment(first=r.epoch, last=r.epoch) for r in records if r.records and r.epoch not in inside]
    return sorted([*found, *alone], key=lambda segment: segment.last)


def sample_segments(
    segments: Sequence[Segment], records: Sequence[EpochRecord], pinned: Iterable[int], *, seed: int, most: int = MOST
) -> list[Segment]:
    """Return the newest segment, the pinned ones and others by lot, as long as they have so many records at most.

    The first one that is drawn is taken whatever its size, so that something is always recomputed.
    """
    sizes = {r.epoch: r.records for r in records}
    wanted = set(pinned)
    drawn = random.Random(seed).sample(segments, len(segments))  # noqa: S311 -- a sample, no secret
    first = [*segments[-1:], *(s for s in segments if s.last in wanted)]
    chosen: list[Segment] = []
    total = 0
    for segment in dict.fromkeys([*first, *drawn]):
        size = sum(sizes.get(e, 0) for e in range(segment.first, segment.last + 1))
        if not chosen or total + size <= most:
            chosen.append(segment)
            total += size
    return sorted(chosen, key=lambda segment: segment.last)


def _portion(
    source: Source, facts: VerifyFacts, segment: Segment, raw: Sequence[RawRecord], rejoin: Rejoin
) -> RecomputedPortion:
    records = _select_records(facts, segment)
    judged = [record.watermark_before for record in records]
    found_ledger = _ledger(source, segment)
    expected = reference.run(
        facts.pipeline,
        raw,
        epochs=[record.end for record in records],
        watermarks=judged,
        dimensions=rejoin.at(rejoin.collect_recorded(records)),
        seen=known_ids.ids_seen_before(source, segment, raw, found_ledger),
    )
    return RecomputedPortion(
        first=segment.first,
        last=segment.last,
        records=len(raw),
        expected={(start, end, tuple(map(plain, key))): row for (start, end, key), row in expected.rows.items()},
        found=_rows(source, facts, segment.last),
        expected_ledger=expected.ledger,
        found_ledger=found_ledger,
        expected_ids=known_ids.ids_kept(source, expected.shown),
        found_ids=known_ids.ids_first_seen(source, segment),
    )


def _rows(source: Source, facts: VerifyFacts, epoch: int) -> dict[Group, ResultRow]:
    pipeline = facts.pipeline
    folded = finish_sql(pipeline, f"(SELECT * FROM {ROWS} WHERE _epoch = {int(epoch)})")
    columns = ", ".join(map(identifier, (*pipeline.key, *pipeline.measures)))
    query = f"SELECT epoch_us(window_start), epoch_us(window_end), _n, {columns} FROM ({folded})"
    found: dict[Group, ResultRow] = {}
    for start, end, n, *values in source.connection.execute(query).fetchall():
        key, measures = map(plain, values[: len(pipeline.key)]), map(plain, values[len(pipeline.key) :])
        row = ResultRow(n=int(n), measures=dict(zip(pipeline.measures, measures, strict=True)))
        found[start, end, tuple(key)] = row
    return found


def _ledger(source: Source, segment: Segment) -> frozenset[reference.UncountedPair]:
    return rows.ledger_rows(source, f"_epoch BETWEEN {int(segment.first)} AND {int(segment.last)}")


def _folds(source: Source, facts: VerifyFacts) -> Iterable[Refold]:
    """Compare the table before and after its newest fold (every fold if asked for), as far as their files are kept."""
    done = [c.version for c in rows.commits(source, facts) if c.mark == "fold" and c.version > 0]
    for version in done if source.asked.every else done[-1:]:
        refold = _refold(source, facts, version)
        if refold is not None:
            yield refold


def _refold(source: Source, facts: VerifyFacts, version: int) -> Refold | None:
    for number, view in ((version - 1, "fold_before"), (version, "fold_after")):
        log = results.readable(source.version.uri, number)
        if log is None:
            return None
        log.relation(source.connection, f"{view}_log", epoch=facts.records[-1].epoch)
        folded = finish_sql(facts.pipeline, f"{view}_log")
        source.connection.execute(f"CREATE OR REPLACE TEMP VIEW {view} AS {folded}")
    found = results.compare_results(source.connection, facts.pipeline, "fold_before", "fold_after")
    text = "expected the result of the version before it, got another."
    different = (f"window {moment(at)}: {text}" for at in found.changed)
    return Refold(version=version, windows=found.windows, different=tuple(different))
