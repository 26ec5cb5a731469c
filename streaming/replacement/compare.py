"""Comparison of two streams at one cut: accepted and late records together must give the same rows.

Which records are late follows from where epochs end and may differ between two streams; what they add up to may not. A
changed definition may differ in whatever its change note declares, and in nothing else. Differences that come from
epoch boundaries, from the time at which a dimension was read, or from unread records are not differences of the
definitions; where the two kinds cannot be distinguished, the comparison is rejected.

A stream is a version and the definition that it runs. Cuts that two streams have in common are epochs of both that end
at the same offsets of the same log.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or ours

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import duckdb

from cutover.clock import SystemClock
from cutover.counts import choose_form, count_noun
from cutover.definition.checks import change
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.expressions.terms import is_numeric
from cutover.definition.model.pipeline import Change, Pipeline
from cutover.engine import queries
from cutover.errors import DefinitionError, LakeError
from cutover.lake.control import losses, pins, versions
from cutover.lake.control.versions import Version
from cutover.lake.epochs import delivery
from cutover.lake.epochs.delivery import EXACTLY_ONCE
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord, read_newest_epoch
from cutover.lake.integrity import table_weights
from cutover.lake.journal_rows import Loss
from cutover.log.topic_partitions import format_partition
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import identifier
from cutover.records.classes import Class
from cutover.records.fold import finish_sql
from cutover.settings import Settings

_NEWEST = 20
"""Newest common cuts that are tried although no reader has pinned them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A version of a stream, and the definition that it runs."""

    pipeline: Pipeline
    version: Version

    @property
    def text(self) -> str:
        """Return how messages name it: `flights stream-0`."""
        return f"{self.pipeline.name} stream-{self.version.number}"

    @property
    def epoch_log(self) -> EpochLog:
        """Open its current epoch log."""
        return EpochLog(self.version.uri)


def list_common_cuts(epoch_records: Sequence[EpochRecord], second: Sequence[EpochRecord]) -> Iterator[tuple[int, int]]:
    """Yield the epochs of two streams that end at the same offsets of the same log, the newest of the second first."""
    ends = {_key(record): record.epoch for record in epoch_records}
    positions = set()
    for epoch_record in reversed(second):
        if _key(epoch_record) in ends and _key(epoch_record) not in positions:
            positions.add(_key(epoch_record))
            yield ends[_key(epoch_record)], epoch_record.epoch


def find_readable_cut(
    epoch_log: EpochLog, second: EpochLog, *, after_epoch: int = -1, pinned_cuts: Container[tuple[int, int]] = ()
) -> tuple[int, int] | None:
    """Return the newest common cut whose epochs were not merged into later ones; None if there is none.

    Args:
        epoch_log: One stream.
        second: The other stream, which is to replace it.
        after_epoch: Epoch at which the second stream was forked: an earlier cut compares the first with itself.
        pinned_cuts: Cuts that readers have pinned, as a replay does where both met. They are tried however old they
            are; of the others only the newest few are, since older epochs are folded.
    """
    records_of_both = (epoch_log.records(), second.records())
    cuts = [cut for cut in list_common_cuts(*records_of_both) if cut[1] > after_epoch]
    for place, cut in enumerate(cuts):
        if place < _NEWEST or cut in pinned_cuts:
            parts = zip((epoch_log, second), records_of_both, cut, strict=True)
            if not any(_is_folded(log, records, epoch) for log, records, epoch in parts):
                return cut
    return None


def drop_zeros(offsets: Mapping[int, int]) -> dict[int, int]:
    """Return offsets without partitions of which nothing was read: an older epoch does not name those added since."""
    return {partition: offset for partition, offset in offsets.items() if offset}


def _key(record: EpochRecord) -> tuple[object, ...]:
    return (record.topic_id, *sorted(drop_zeros(record.end).items()))


def _is_folded(log: EpochLog, records: Sequence[EpochRecord], epoch: int) -> bool:
    return bool(delivery.find_folded_classes(log, [record for record in records if record.epoch <= epoch]))


def find_stream(lake: PipelineLake, number: int | None = None) -> Stream:
    """Return the version of a pipeline that serves, or one by number, with its existing epoch log.

    Raises:
        DefinitionError: There is no such version.
        LakeError: It has no epoch log yet, or the epoch log was deleted.
    """
    selected = lake.with_settings(stream_version=number)
    return Stream(
        pipeline=lake.pipeline, version=table_weights.check_epoch_log(selected, versions.find_current_version(selected))
    )


EXAMPLES_AT_MOST = 20
ChangeKind = Literal["changed", "missing", "extra"]
"""Difference of a (window, key) row of the second stream: other values, row missing, or row only there."""

CLASSES = (Class.MALFORMED, Class.FILTERED, Class.FUTURE)
"""Classes that follow from a record and its definition alone: two streams of one log have as many of each."""

_SIDES = ("serving", "beside")

_COUNTS = "SELECT __change, count(*) FROM joined WHERE __change <> 'same' AND {which} GROUP BY 1 ORDER BY 1"
_EXAMPLES = f"""
    SELECT __text || ': ' || __change FROM joined WHERE __change <> 'same' AND NOT __declared
    ORDER BY 1 LIMIT {EXAMPLES_AT_MOST}"""
_OTHERWISE = """
    SELECT count(*) FROM shown LEFT JOIN joined USING (__place)
    WHERE shown.__change <> 'same' AND NOT shown.__declared AND coalesce(joined.__change, 'same') = 'same'"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Records of the epochs that a stream has read up to a cut."""

    stream: Stream
    records: Sequence[EpochRecord]  # up to the cut, at least one
    losses: Sequence[Loss] = ()  # recorded of its version

    def count(self, kind: Class) -> int:
        """Count (record, window) pairs of a class."""
        return sum(record.counts.get(kind, 0) for record in self.records)


def find_coverage(settings: Settings, stream: Stream, epoch: int) -> Coverage:
    """Read the epochs and losses of a stream up to an epoch.

    Raises:
        LakeError: Its records or its losses cannot be read.
    """
    records = [record for record in stream.epoch_log.records() if record.epoch <= epoch]
    return Coverage(stream=stream, records=records, losses=losses.list_of_version(settings, stream.version))


def reject_unfair(serving: Coverage, coverage: Coverage) -> None:
    """Check that a comparison of two streams can neither report false differences nor hide real ones.

    Raises:
        LakeError: They cannot be compared; the message names the condition.
    """
    reason = next((text for evaluate in _CONDITIONS for text in evaluate(serving, coverage)), None)
    if reason is None:
        return
    msg = f"{coverage.stream.text} and {serving.stream.text}: expected two streams that can be compared, {reason}."
    names = dict.fromkeys((coverage.stream.pipeline.name, serving.stream.pipeline.name))
    commands = " and ".join(f"`cutover reconcile {name}`" for name in names)
    raise LakeError(
        msg + f"\nHint: compare each with its own batch path ({commands}); `--uncompared` lets it serve then."
    )


def _evaluate_deliveries(serving: Coverage, coverage: Coverage) -> Iterator[str]:
    for side in (serving, coverage):
        for kind in sorted({side.stream.pipeline.delivery, *(record.delivery for record in side.records)}):
            if kind != EXACTLY_ONCE:
                yield f"{side.stream.text} delivers {kind}: what it doubled or lost is no difference of the definitions"


def _evaluate_losses(serving: Coverage, coverage: Coverage) -> Iterator[str]:
    for side in (serving, coverage):
        if side.losses:
            yield f"{side.stream.text} continues after a recorded loss, which the other one may not have"


def _evaluate_beginnings(serving: Coverage, coverage: Coverage) -> Iterator[str]:
    """Yield where one of them begins behind what the other one has read: retention may have removed it meanwhile."""
    starts = [drop_zeros(side.records[0].start) for side in (serving, coverage)]
    if starts[0] != starts[1]:
        partition = min(p for p in {*starts[0], *starts[1]} if starts[0].get(p, 0) != starts[1].get(p, 0))
        place, offsets = format_partition(serving.records[0].topic, partition), [s.get(partition, 0) for s in starts]
        yield (
            f"{place} is read from offset {offsets[1]:,} by {coverage.stream.text} and from {offsets[0]:,} "
            f"by {serving.stream.text}: windows would be missing"
        )


def _evaluate_ids(serving: Coverage, coverage: Coverage) -> Iterator[str]:
    """Yield streams with ids that judged records late: whether such a record is a duplicate was known to one alone."""
    for side in (serving, coverage):
        if side.stream.pipeline.source.record_id is not None and (late := side.count(Class.LATE)):
            yield (
                f"{side.stream.text} has {count_noun(late, 'late row')} of records with ids, of "
                f"which some may be duplicates"
            )


def _evaluate_dimensions(serving: Coverage, coverage: Coverage) -> Iterator[str]:
    """Yield tables that were joined at other versions, or at several, under whichever name of a lookup."""
    joined: dict[str, set[tuple[str | None, int]]] = {}
    sides = [{lookup.table for lookup in side.stream.pipeline.lookups.values()} for side in (serving, coverage)]
    for side in (serving, coverage):
        for name, lookup in side.stream.pipeline.lookups.items():
            joined_versions = joined.setdefault(lookup.table, set())
            joined_versions |= {
                (r.dimension_ids.get(name), r.dimensions[name]) for r in side.records if name in r.dimensions
            }
    for table in sorted(sides[0] & sides[1]):
        if len(joined[table]) > 1:
            yield f"the table of the lookup `{table}` was joined at {len(joined[table])} versions"


_CONDITIONS: tuple[Callable[[Coverage, Coverage], Iterator[str]], ...] = (
    _evaluate_deliveries,
    _evaluate_losses,
    _evaluate_beginnings,
    _evaluate_ids,
    _evaluate_dimensions,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamComparison:
    """Differences between two streams at the same offsets."""

    serving: str  # `flights stream-0`
    candidate: str
    epochs: tuple[int, int]  # of the cut, in each
    beyond: int  # offsets that the second stream has read after the cut; they are not compared
    rows: int  # (window, key), of either
    late: tuple[int, int]  # (record, window) pairs that each judged late
    otherwise: int  # (window, key) rows that add up to the same, and read otherwise since other records were late
    counts: Mapping[str, int]  # `ChangeKind` -> rows that differ and should not
    declared: Mapping[str, int]  # `ChangeKind` -> rows that differ as the change note declares
    classes: Mapping[str, tuple[int, int]]  # class of which each has another number, undeclared -> pairs
    examples: tuple[str, ...]  # of `counts`
    is_emptied: bool = False  # the second stream has no row although the serving one has

    @property
    def differing(self) -> int:
        """Return the rows that differ and should not."""
        return sum(self.counts.values())

    @property
    def exit_code(self) -> int:
        """Return 0: they add up to the same, but for what is declared; 1: they do not."""
        return int(bool(self.counts) or bool(self.classes))

    @property
    def summary(self) -> str:
        """Return a summary for the history: `3 of 120 rows differ`, and how many as declared."""
        declared = f", {sum(self.declared.values()):,} as declared" if self.declared else ""
        rows = f"{self.differing:,} of {count_noun(self.rows, 'row')}"
        rows += f" {choose_form(self.differing, 'differs', 'differ')}{declared}"
        return f"compared with {self.serving} at epoch {self.epochs[1]}: {rows}"


def compare_versions(lake: PipelineLake, number: int) -> StreamComparison:
    """Compare the version that serves with another one, at the newest cut that both have.

    Raises:
        DefinitionError: The other one serves itself, or is not there.
        LakeError: They have no cut in common, cannot be compared fairly, or a table cannot be read.
    """
    pipeline = lake.pipeline
    serving, candidate = find_stream(lake), find_stream(lake, number)
    if serving.version.number == candidate.version.number:
        msg = f"Versions of `{pipeline.name}`: expected another one than that which serves, got stream-{number}."
        raise DefinitionError(msg)
    hint = (
        f"`cutover replay {pipeline.name} --into {number}` continues up to an epoch of the serving version; or compare "
    )
    hint += f"each with batch: `cutover reconcile {pipeline.name} --version {number}`, then "
    hint += f'`cutover serve {pipeline.name} --version {number} --uncompared --why "..."`'
    return _compare(lake.settings, serving, candidate, hint=hint)


def compare_definitions(settings: Settings, new: Pipeline, old: Pipeline) -> StreamComparison:
    """Compare a changed definition with the one whose place it is to take, at the newest cut that both have.

    Raises:
        DefinitionError: The note does not fit, or rows of the two cannot be held against one another.
        LakeError: They have no cut in common, cannot be compared fairly, or a table cannot be read.
    """
    change.check_pair(new, old)
    hint = f"end the driver of `{new.name}` (`cutover stream {new.name} --stop`), let it read up to an epoch of "
    hint += f"`{old.name}` (`cutover replay {new.name}`), and compare again"
    return _compare(
        settings, find_stream(PipelineLake(settings, old)), find_stream(PipelineLake(settings, new)), hint=hint
    )


def _compare(settings: Settings, serving: Stream, stream: Stream, *, hint: str) -> StreamComparison:
    logs = (serving.epoch_log, stream.epoch_log)
    fork = stream.version.fork
    epochs = find_readable_cut(
        *logs, after_epoch=-1 if fork is None else fork.epoch, pinned_cuts=_list_held_cuts(settings, serving, stream)
    )
    if fork is not None and read_newest_epoch(logs[1]).epoch <= fork.epoch:
        msg = f"{stream.text}: expected an epoch after its fork to compare, got none: it has read nothing since."
        raise LakeError(
            msg + "\nHint: it holds only the epochs it was forked with; `--uncompared` serves it without a comparison."
        )
    if epochs is None:
        msg = f"{stream.text} and {serving.text}: expected epochs that end at the same offsets, found none that "
        raise LakeError(msg + f"can be read.\nHint: {hint}.")
    coverages = [find_coverage(settings, side, epoch) for side, epoch in zip((serving, stream), epochs, strict=True)]
    reject_unfair(*coverages)
    new, old = stream.pipeline, serving.pipeline
    with queries.open_duckdb(queries.make_reader_limits(settings)) as connection:
        for name, log, epoch in zip(_SIDES, logs, epochs, strict=True):
            log.relation(connection, f"log_{name}", epoch=epoch)
        _join(connection, "joined", new, old, keep=(Class.ACCEPTED, Class.LATE))
        _join(connection, "shown", new, old, keep=(Class.ACCEPTED,))
        rows = _number(connection, "SELECT count(*) FROM joined")
        if not rows:
            msg = f"{stream.text} and {serving.text}: expected rows to compare, got none up to their common cut."
            raise LakeError(msg + f"\nHint: {hint}.")
        return StreamComparison(
            serving=serving.text,
            candidate=stream.text,
            epochs=epochs,
            beyond=_count_beyond(stream, epochs[1]),
            rows=rows,
            late=(coverages[0].count(Class.LATE), coverages[1].count(Class.LATE)),
            otherwise=_number(connection, _OTHERWISE),
            counts=_count(connection, "NOT __declared"),
            declared=_count(connection, "__declared"),
            classes=_compare_classes(*coverages),
            examples=tuple(str(row[0]) for row in connection.execute(_EXAMPLES).fetchall()),
            is_emptied=not _number(connection, "SELECT count(*) FROM joined WHERE __change <> 'missing'"),
        )


def _list_held_cuts(settings: Settings, *streams: Stream) -> set[tuple[int, int]]:
    """Return the pairs of epochs that readers hold, one of each stream."""
    now = SystemClock().now()
    first_pins, second = (pins.list_pinned_epochs(settings, stream.version, now=now) for stream in streams)
    return set(product(first_pins, second))


def _count_beyond(stream: Stream, epoch: int) -> int:
    """Return how many offsets a stream has read behind an epoch."""
    at = next(record for record in stream.epoch_log.records() if record.epoch == epoch)
    return sum(end - at.end.get(partition, 0) for partition, end in read_newest_epoch(stream.epoch_log).end.items())


def _compare_classes(serving: Coverage, coverage: Coverage) -> dict[str, tuple[int, int]]:
    """Return the classes of which each has another number, but for those that the change note names."""
    note = _find_note(coverage.stream.pipeline, serving.stream.pipeline)
    equal_classes = (kind for kind in CLASSES if note is None or kind not in note.classes)
    counts = {str(kind): (serving.count(kind), coverage.count(kind)) for kind in equal_classes}
    return {kind: pairs for kind, pairs in counts.items() if pairs[0] != pairs[1]}


def _find_note(new: Pipeline, old: Pipeline) -> Change | None:
    """Return the change note between two definitions; None: they are one."""
    return new.change if new.name != old.name else None


def _join(
    connection: duckdb.DuckDBPyConnection, into: str, new: Pipeline, old: Pipeline, *, keep: tuple[Class, ...]
) -> None:
    """Make a table of each (window, key) row of either: place, `ChangeKind`, and whether that is declared."""
    for name, pipeline in zip(_SIDES, (old, new), strict=True):
        folded = finish_sql(pipeline, f"log_{name}", keep=keep)
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {folded}")
    connection.execute(f"CREATE TEMP TABLE {into} AS {_join_sql(new, old)}")


def _join_sql(new: Pipeline, old: Pipeline) -> str:
    note = _find_note(new, old)
    keys = [identifier(name) for name in ("window_start", "window_end", *new.key)]
    on = " AND ".join(f"a.{key} IS NOT DISTINCT FROM b.{key}" for key in keys)
    either = [f"coalesce(a.{key}, b.{key})" for key in keys]
    place = f"[{', '.join(f'coalesce({key}::VARCHAR, chr(0))' for key in either)}]"
    may_change = () if note is None else note.changed
    shared_measures = [name for name in new.measures if name in old.measures and name not in may_change]
    shared_measures += ["_n"] if note is None else []  # a changed definition may count other records
    differ = _any_sql(f"a.{identifier(name)} IS DISTINCT FROM b.{identifier(name)}" for name in shared_measures)
    shifted = _any_sql(_apart_sql(name, new, old) for name in may_change)
    kind = "CASE WHEN b.__in IS NULL THEN 'missing' WHEN a.__in IS NULL THEN 'extra'"
    kind += f" WHEN {differ} OR {shifted} THEN 'changed'"
    sides = (f"(SELECT *, true AS __in FROM {name})" for name in _SIDES)
    change_sql = f"{place} AS __keys, {kind} ELSE 'same' END AS __change, coalesce({differ}, false) AS __differ"
    columns = ", ".join(f"{value} AS {key}" for value, key in zip(either, keys, strict=True))
    joined = f"SELECT {change_sql}, {columns} FROM {' a FULL JOIN '.join(sides)} b ON {on}"
    text = "array_to_string(list_transform(__keys, lambda x: CASE x WHEN chr(0) THEN 'null' ELSE x END), ', ')"
    declared = f"{_declared_sql(new, note)} AS __declared"
    return f"SELECT __keys AS __place, {text} AS __text, __change, {declared} FROM ({joined})"


def _declared_sql(new: Pipeline, note: Change | None) -> str:
    """Return the condition that a row may differ as it does."""
    if note is None:
        return "false"
    expression = change.compile_within(new)
    kinds = {"added": "__change = 'extra'", "removed": "__change = 'missing'"}
    allowed = [kinds[kind] for kind in note.rows]
    allowed += ["(__change = 'changed' AND NOT __differ)"] if note.changed else []
    condition = (
        "true" if expression is None else f"(NOT {expression.duckdb_failed} AND coalesce({expression.duckdb}, false))"
    )
    return f"({_any_sql(allowed)} AND {condition})"


def _apart_sql(name: str, new: Pipeline, old: Pipeline) -> str:
    """Return the condition that a measure has another value; of two types that are no numbers it is that of texts."""
    kinds = {compile_pipeline(of).result_types[name] for of in (new, old)}
    as_text = "" if len(kinds) == 1 or all(map(is_numeric, kinds)) else "::VARCHAR"
    return f"a.{identifier(name)}{as_text} IS DISTINCT FROM b.{identifier(name)}{as_text}"


def _any_sql(conditions: Iterable[str]) -> str:
    return f"({' OR '.join(conditions) or 'false'})"


def _count(connection: duckdb.DuckDBPyConnection, which: str) -> dict[str, int]:
    counts = connection.execute(_COUNTS.format(which=which)).fetchall()
    return {str(kind): int(count) for kind, count in counts}


def _number(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    return int(connection.execute(query).fetchall()[0][0])
