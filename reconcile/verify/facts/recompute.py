"""Epochs recomputed by plain Python from the log, with their stored rows; results before and after folds.

The ids that a stream had seen before an epoch are those that its epoch log retains. For event minutes whose ids have
left the epoch log, the first record of an id can no longer be determined: there, a record that the ledger lists as a
duplicate counts as one. Facts are gathered part by part, as the checks need them.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or our constant

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import duckdb

from cutover.counts import count_noun
from cutover.errors import CutoverError
from cutover.lake.control import pins
from cutover.lake.dimensions.joined_versions import Rejoin
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.integrity import lost_records
from cutover.lake.integrity.lost_records import LostRecords, record_bounds
from cutover.lake.tables.schemas import RowKind, kind_sql
from cutover.log.kafka import RawRecord
from cutover.quoting import identifier
from cutover.reconcile.comparison.layout import to_plain
from cutover.reconcile.verify.facts import recompute, rows
from cutover.reconcile.verify.facts.facts import (
    NOT_REQUESTED,
    Group,
    Prefix,
    RecomputedPortion,
    Refold,
    Twin,
    Unknown,
    VerifyFacts,
    format_utc_time,
)
from cutover.reconcile.verify.facts.rows import Segment, segments
from cutover.reconcile.verify.facts.source import (
    ALL_ROWS,
    ROWS,
    SameLog,
    Source,
    count_log_records,
    explain_unreadable,
    find_lost_epochs,
    read_retained,
)
from cutover.records import reference
from cutover.records.classes import Class
from cutover.records.fold import finish_sql
from cutover.records.parsing.limits import MAX_MICROS
from cutover.records.reference import ResultRow, UncountedPair
from cutover.records.reference.parse import parse_record
from cutover.timestamps import to_micros

_IDS = kind_sql(RowKind.IDS)

MOST_RECORDS = 4_000  # records that plain Python recomputes unless a run is exhaustive: about a second

_REASONS = (
    "the record of an epoch in them is missing",
    "their records have left the log",
    "the version of a dimension can no longer be read",
)


def find_earlier_ids(
    source: Source, segment: Segment, records: Sequence[RawRecord], ledger: Iterable[UncountedPair]
) -> frozenset[Twin]:
    """Find the ids and event times of some records that appear in earlier epochs.

    Args:
        source: An open epoch log.
        segment: The epochs.
        records: The records that these epochs read.
        ledger: The ledger's rows of these epochs (late, duplicate, ...).
    """
    topic = source.lake.pipeline.source
    if topic.record_id is None:
        return frozenset()
    values = {(r.partition, r.offset): parse_record(r.value, topic, r.log_time_micros).values for r in records}
    twins = {
        at: (value[topic.record_id], value[topic.event_time])
        for at, value in values.items()
        if value.get(topic.event_time) is not None
    }
    earlier_ids = _read_known_ids(source, segment.first_epoch, {event for _, event in twins.values()})
    duplicates = {(row.partition, row.offset) for row in ledger if row.cls is Class.DUPLICATE}
    accepted_twins = {twin for at, twin in twins.items() if at not in duplicates}
    forgotten_time = _find_forgotten_time(source)
    forgotten_duplicates = {twins[at] for at in duplicates if at in twins and twins[at][1] < forgotten_time}
    return frozenset(earlier_ids | (forgotten_duplicates - accepted_twins))


def read_new_ids(source: Source, segment: Segment) -> frozenset[Twin]:
    """Read the ids that appear first in some epochs, without event minutes that the epoch log has forgotten."""
    if source.lake.pipeline.source.record_id is None:
        return frozenset()
    query = f"""
        SELECT id, epoch_us(event_time) FROM (
            SELECT unnest(_ids, recursive := true) FROM {ALL_ROWS}
            WHERE {_IDS} AND _epoch BETWEEN {int(segment.first_epoch)} AND {int(segment.last_epoch)}
        )
    """
    rows = source.connection.execute(query).fetchall()
    return select_retained_ids(source, ((_plain(name), event) for name, event in rows))


def select_retained_ids(source: Source, twins: Iterable[Twin]) -> frozenset[Twin]:
    """Select the ids whose event minutes have not left the epoch log."""
    if source.lake.pipeline.source.record_id is None:
        return frozenset()
    forgotten = _find_forgotten_time(source)
    return frozenset(twin for twin in twins if twin[1] >= forgotten)


def _read_known_ids(source: Source, epoch: int, events: set[int]) -> set[Twin]:
    """Read the ids of earlier epochs at some event times, as far as the epoch log retains them."""
    if not events:
        return set()
    event_list = ", ".join(str(int(event)) for event in sorted(events))
    query = f"""
        SELECT id, epoch_us(event_time) FROM (
            SELECT unnest(_ids, recursive := true) FROM {ALL_ROWS} WHERE {_IDS} AND _epoch < {int(epoch)}
        ) WHERE epoch_us(event_time) IN ({event_list})
    """
    return {(_plain(name), event) for name, event in source.connection.execute(query).fetchall()}


def _find_forgotten_time(source: Source) -> int:
    """Return the event time before which ids may have left the epoch log, microseconds."""
    query = f"SELECT max(epoch_us(window_start)) FROM {ALL_ROWS} WHERE {_IDS} AND _class = 'forgotten'"
    (newest_forgotten,) = source.connection.execute(query).fetchall()[0]
    return -MAX_MICROS if newest_forgotten is None else int(newest_forgotten)


def _plain(name: Any) -> Any:
    """Convert an id to a plain Python value: a time becomes microseconds."""
    return to_micros(name) if hasattr(name, "tzinfo") else name


def recompute_prefix(source: Source, facts: VerifyFacts) -> Prefix:
    """Recompute the newest epoch, the pinned ones and a sample of the others; all retained ones if exhaustive.

    Raises:
        LogError: No broker answers, or the topic was replaced by another log.
    """
    if not facts.records:
        return Prefix(portions=(), of_epochs=0, sampled=False, seed=source.request.seed)
    return read_retained(source, facts, partial(_recompute, source, facts))


def _recompute(source: Source, facts: VerifyFacts, log: SameLog) -> Prefix:
    by_number = {record.epoch: record for record in facts.records}
    segments = _list_segments(source, facts.records)
    complete_segments = [s for s in segments if all(e in by_number for e in range(s.first_epoch, s.last_epoch + 1))]
    recomputable = [
        s for s in complete_segments if all(log.holds(by_number[e]) for e in range(s.first_epoch, s.last_epoch + 1))
    ]
    rejoin, retained = Rejoin(source.lake), len(recomputable)
    recomputable = [
        s for s in recomputable if rejoin.explain_unreadable(rejoin.collect_recorded(_select_records(facts, s))) is None
    ]
    pinned = pins.list_pinned_epochs(source.lake.settings, source.version, now=source.request.now)
    sample = (
        recomputable
        if source.request.exhaustive
        else sample_segments(recomputable, facts.records, pinned, seed=source.request.seed)
    )
    portions: list[RecomputedPortion] = []
    losses: list[LostRecords] = []
    for segment in sample:
        records = _select_records(facts, segment)
        raw = list(log.client.read_ranges(log.topic, log.ranges(records), log.isolation))
        segment_losses = _find_lost(facts, log, records, raw)
        losses += segment_losses
        if not segment_losses:
            portions.append(_recompute_portion(source, facts, segment, raw, rejoin))
    return Prefix(
        portions=tuple(portions),
        of_epochs=sum(record.records > 0 for record in facts.records),
        sampled=len(sample) < len(recomputable),
        seed=source.request.seed,
        folds=tuple(_compare_folds(source, facts)),
        omission=_describe_omission(
            (len(segments) - len(complete_segments), len(complete_segments) - retained, retained - len(recomputable)),
            len(segments),
        ),
        lost_records=lost_records.format_lost(losses),
    )


def _find_lost(
    facts: VerifyFacts, log: SameLog, epoch_records: Sequence[EpochRecord], raw: Sequence[RawRecord]
) -> tuple[LostRecords, ...]:
    """Return the epochs of a portion whose records the log has lost; they are counted only if some are missing."""
    window = facts.pipeline.window
    if len(raw) >= sum(record_bounds(record.counts, window)[0] for record in epoch_records):
        return ()
    return find_lost_epochs(log, epoch_records, window)


def _describe_omission(counts: tuple[int, int, int], of: int) -> str:
    reasons = zip(counts, _REASONS, strict=True)
    return " ".join(
        f"{n:,} of {count_noun(of, 'portion')} cannot be recomputed: {reason}." for n, reason in reasons if n
    )


def _select_records(facts: VerifyFacts, segment: Segment) -> list[EpochRecord]:
    return [r for r in facts.records if segment.first_epoch <= r.epoch <= segment.last_epoch]


def _list_segments(source: Source, records: Sequence[EpochRecord]) -> list[Segment]:
    """List all segments, and as segments the epochs with records of which none was accepted."""
    recorded_epochs = {record.epoch for record in records}
    labelled = segments(
        records, (label for (label,) in source.connection.execute(rows.LABELS).fetchall() if label in recorded_epochs)
    )
    covered_epochs = {epoch for segment in labelled for epoch in range(segment.first_epoch, segment.last_epoch + 1)}
    alone = [
        Segment(first_epoch=r.epoch, last_epoch=r.epoch) for r in records if r.records and r.epoch not in covered_epochs
    ]
    return sorted([*labelled, *alone], key=lambda segment: segment.last_epoch)


def sample_segments(
    segments: Sequence[Segment],
    records: Sequence[EpochRecord],
    pinned: Iterable[int],
    *,
    seed: int,
    limit: int = MOST_RECORDS,
) -> list[Segment]:
    """Sample the newest segment, the pinned ones and random others, with at most `limit` records together.

    The first segment is selected whatever its size, so that at least one is recomputed.
    """
    sizes = {r.epoch: r.records for r in records}
    pinned_epochs = set(pinned)
    shuffled = random.Random(seed).sample(segments, len(segments))  # noqa: S311 -- a sample, no secret
    preferred = [*segments[-1:], *(s for s in segments if s.last_epoch in pinned_epochs)]
    sample: list[Segment] = []
    total = 0
    for segment in dict.fromkeys([*preferred, *shuffled]):
        size = sum(sizes.get(e, 0) for e in range(segment.first_epoch, segment.last_epoch + 1))
        if not sample or total + size <= limit:
            sample.append(segment)
            total += size
    return sorted(sample, key=lambda segment: segment.last_epoch)


def _recompute_portion(
    source: Source, facts: VerifyFacts, segment: Segment, raw: Sequence[RawRecord], rejoin: Rejoin
) -> RecomputedPortion:
    records = _select_records(facts, segment)
    watermarks = [record.watermark_before for record in records]
    actual_ledger = _read_ledger(source, segment)
    expected = reference.compute_reference(
        facts.pipeline,
        raw,
        epochs=[record.end for record in records],
        watermarks=watermarks,
        dimensions=rejoin.at(rejoin.collect_recorded(records)),
        known_twins=find_earlier_ids(source, segment, raw, actual_ledger),
    )
    return RecomputedPortion(
        first_epoch=segment.first_epoch,
        last_epoch=segment.last_epoch,
        records=len(raw),
        expected={(start, end, tuple(map(to_plain, key))): row for (start, end, key), row in expected.rows.items()},
        actual=_read_rows(source, facts, segment.last_epoch),
        expected_ledger=expected.ledger,
        actual_ledger=actual_ledger,
        expected_ids=select_retained_ids(source, expected.new_twins),
        actual_ids=read_new_ids(source, segment),
    )


def _read_rows(source: Source, facts: VerifyFacts, epoch: int) -> dict[Group, ResultRow]:
    pipeline = facts.pipeline
    folded = finish_sql(pipeline, f"(SELECT * FROM {ROWS} WHERE _epoch = {int(epoch)})")
    columns = ", ".join(map(identifier, (*pipeline.key, *pipeline.measures)))
    query = f"SELECT epoch_us(window_start), epoch_us(window_end), _n, {columns} FROM ({folded})"
    result_rows: dict[Group, ResultRow] = {}
    for start, end, n, *values in source.connection.execute(query).fetchall():
        key, measures = map(to_plain, values[: len(pipeline.key)]), map(to_plain, values[len(pipeline.key) :])
        row = ResultRow(n=int(n), measures=dict(zip(pipeline.measures, measures, strict=True)))
        result_rows[start, end, tuple(key)] = row
    return result_rows


def _read_ledger(source: Source, segment: Segment) -> frozenset[reference.UncountedPair]:
    return rows.query_ledger(source, f"_epoch BETWEEN {int(segment.first_epoch)} AND {int(segment.last_epoch)}")


def _compare_folds(source: Source, facts: VerifyFacts) -> Iterable[Refold]:
    """Compare the table before and after its newest fold, or every fold if exhaustive, while its files are retained."""
    fold_versions = [c.version for c in rows.read_commits(source, facts) if c.mark == "fold" and c.version > 0]
    for version in fold_versions if source.request.exhaustive else fold_versions[-1:]:
        refold = _compare_fold(source, facts, version)
        if refold is not None:
            yield refold


def _compare_fold(source: Source, facts: VerifyFacts, version: int) -> Refold | None:
    for number, view in ((version - 1, "fold_before"), (version, "fold_after")):
        log = rows.open_epoch_log(source.version.uri, number)
        if log is None:
            return None
        log.relation(source.connection, f"{view}_log", epoch=facts.records[-1].epoch)
        folded = finish_sql(facts.pipeline, f"{view}_log")
        source.connection.execute(f"CREATE OR REPLACE TEMP VIEW {view} AS {folded}")
    comparison = rows.compare_results(source.connection, facts.pipeline, "fold_before", "fold_after")
    explanation = "expected the result of the version before it, got another."
    different = (f"window {format_utc_time(at)}: {explanation}" for at in comparison.changed_windows)
    return Refold(version=version, windows=comparison.windows, different=tuple(different))


PARTS: Mapping[str, Callable[[Source, VerifyFacts], object]] = {
    "books": rows.compute_row_totals,
    "batch_ledger": rows.read_batch_ledger,
    "commits": rows.read_commits,
    "reopened": rows.find_reopened,
    "log": count_log_records,
    "prefix": recompute.recompute_prefix,
    "paths": rows.evaluate_path_agreement,
    "finals": rows.compare_finals,
    "repeated": rows.compare_repeated_runs,
    "foreign": rows.list_foreign_changes,
}


def with_part(source: Source, facts: VerifyFacts, name: str) -> VerifyFacts:
    """Add one part to the facts unless they have it; a part that cannot be gathered becomes `Unknown`.

    Raises:
        LakeError: A file of the epoch log cannot be read.
    """
    if getattr(facts, name) != NOT_REQUESTED:
        return facts
    try:
        part = PARTS[name](source, facts)
    except duckdb.Error as error:
        raise explain_unreadable(source.log, error) from error
    except CutoverError as error:
        part = Unknown(reason=str(error).split("\n", maxsplit=1)[0])
    return replace(facts, **{name: part})  # type: ignore[arg-type]  # `PARTS` has the right type for each name
