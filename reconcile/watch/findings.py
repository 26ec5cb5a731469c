"""Problems and pins that tables record, records that the schema does not describe, and the growth of tables.

Problems were recorded by comparisons, checks, audits and tables. Of the records, the first with an unknown field and
the first with an invalid field are found. Growth is that of an epoch log in rows and bytes, next to the free space.
"""

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from cutover.counts import count_noun
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.topic import Field, Topic, list_fields
from cutover.engine import queries
from cutover.errors import LakeError
from cutover.lake.control import versions
from cutover.lake.control.pins import list_held
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.integrity import table_weights
from cutover.lake.integrity.foreign_commits import Kind
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import RowKind
from cutover.log import topic_partitions
from cutover.log.kafka import LogClient, RawRecord
from cutover.output.cells import visible
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import AHEAD_OF_CUT, Verdict
from cutover.reconcile.result.text import format_number
from cutover.reconcile.verdict import history, records
from cutover.reconcile.verdict.lifecycle import DifferenceState
from cutover.reconcile.verdict.records import RecordedComparison
from cutover.reconcile.verify.record import list_open_violations
from cutover.reconcile.watch.alerts.catalogue import ALERTS_BY_NAME
from cutover.reconcile.watch.facts import Pin, Problem, Regression, RowGrowth, SchemaMismatch, compute_epoch_ages
from cutover.records.classes import Class, Reason
from cutover.records.parsing.binary_values import list_unread_fields
from cutover.records.parsing.writer_schemas import list_field_names
from cutover.records.reference.from_json import list_unknown_names
from cutover.records.reference.parse import parse_record
from cutover.settings import Settings

_INTERVAL = re.compile(r"interval (\d+) (hour|day|week)s?\Z", re.IGNORECASE)
_HOURS_BY_UNIT = {"hour": 1, "day": 24, "week": 168}
_DEFAULT_FILE_RETENTION = timedelta(days=7)  # of Delta

MAX_RECORDS = 50_000
"""Records of an epoch that are searched for the first one with an unknown field."""

MAX_NAME_LENGTH = 63
"""Characters of an unknown field's name that are shown, since it comes from the record."""

_FIRST_MALFORMED = """
    SELECT _epoch, p.partition, p."offset", p.reason
    FROM (SELECT _epoch, unnest(_positions) AS p FROM rows WHERE _class = 'malformed' AND _epoch >= ?)
    WHERE p.reason IN (?, ?) ORDER BY _epoch, p.partition, p."offset" LIMIT 1
"""

USUAL_HOURS = 7 * 24
"""Hours before the last one that define a usual hour: a week, so that nights and Sundays are included."""

GROWTH_EPOCHS, GROWTH_SECONDS = 10, 300.0
"""A disk must have room for the growth of this many epochs, and of this much time."""

_ROWS_BY_HOUR = """
    SELECT floor((? - epoch(TRY_CAST(json_extract_string(_record, '$.processing_time') AS TIMESTAMPTZ))) / 3600) AS ago,
        sum(CAST(json_extract_string(_record, '$.rows') AS BIGINT))
    FROM epochs_by_hour WHERE _record IS NOT NULL GROUP BY ago HAVING ago BETWEEN 0 AND ?"""


def list_comparison_problems(lake: PipelineLake) -> Iterator[Problem]:
    """Yield why the latest comparison was not comparable, and the differences without a cause that are still open.

    Raises:
        LakeError: The history cannot be read.
    """
    lines, version = history.read_current_lines(lake)
    comparisons = records.list_standing(lines, version)
    not_comparable = [comparison for comparison in comparisons if not comparison.is_comparable]
    diverged = [comparison for comparison in comparisons if comparison.verdict is Verdict.DIVERGED]
    if not_comparable and not _is_ahead_for_now(not_comparable):
        yield from _list_breaches(not_comparable[-1].result)
    differences = history.read_open_differences(lake)
    counts = Counter(difference.state for difference in differences.values())
    different_jobs = list(_describe_different_jobs(diverged[-1])) if diverged else []
    yield from (Problem(runbook="DivergenceUnexplained", text=text) for text in different_jobs)
    has_rows = bool(diverged) and (records.count_unexplained(diverged[-1]) > 0 or not different_jobs)
    if has_rows and not _are_all_pending(diverged[-1], counts):
        latest = diverged[-1]
        rows = format_number(records.count_unexplained(latest))
        text = f"{rows} (window, key) rows of final windows differ without a cause"
        yield Problem(runbook="DivergenceUnexplained", text=f"{text}, epoch {latest.epoch}, run {latest.run_id}")
    elif not diverged and counts[DifferenceState.OPEN]:
        first_window = min(d.window_start for d in differences.values() if d.state is DifferenceState.OPEN)
        rows = format_number(counts[DifferenceState.OPEN])
        text = f"{rows} (window, key) rows differed without a cause and have not been compared since"
        yield Problem(runbook="DivergenceUnexplained", text=f"{text}, the first in window {first_window}")


def _describe_different_jobs(latest: RecordedComparison) -> Iterator[str]:
    """Yield a text for each table of a team's own job that differed from the definition."""
    for job in latest.result.get("jobs", []):
        if job["different"]:
            rows = f"{format_number(job['different'])} of {format_number(job['rows'])} rows"
            text = f"{rows} of the {job['side']} job's table are not what the definition says"
            others = ", ".join(job.get("foreign_versions", ()))
            text += f", another writer changed it in version {others}" if others else ""
            yield f"{text}, epoch {latest.epoch}, run {latest.run_id}"


def _are_all_pending(latest: RecordedComparison, counts: Counter[DifferenceState]) -> bool:
    """Return whether all differences without a cause are too recent to alert anyone."""
    is_complete = sum(counts.values()) >= records.count_unexplained(latest)
    return is_complete and not counts[DifferenceState.OPEN] and counts[DifferenceState.PENDING] > 0


def _is_ahead_for_now(not_comparable: Sequence[RecordedComparison]) -> bool:
    """Return whether a batch job had read beyond the latest cut, and no comparison at the cuts before found that.

    A job may write its table between a batch run and the comparison; the next batch run reads as far as the job has.
    """
    latest = not_comparable[-1]
    ahead = [comparison for comparison in not_comparable if _list_codes(comparison.result) == [AHEAD_OF_CUT]]
    return latest in ahead and len({comparison.epoch for comparison in ahead}) == 1


def _list_codes(result: Mapping[str, Any]) -> list[str]:
    return [str(breach.get("code")) for breach in result.get("seal", {}).get("breaches", [])]


def _list_breaches(result: Mapping[str, Any]) -> Iterator[Problem]:
    for breach in result.get("seal", {}).get("breaches", []):
        if breach.get("runbook") in ALERTS_BY_NAME:
            yield Problem(runbook=breach["runbook"], text=visible(str(breach["message"]).splitlines()[0]))


def find_regression(lake: PipelineLake) -> Regression | None:
    """Find the regression that an audit found and that nothing has refuted since.

    Raises:
        LakeError: The record of the audits cannot be read.
    """
    audit = history.find_open_regression(lake)
    if audit is None:
        return None
    example = visible(audit.examples[0]) if audit.examples else "none that was listed"
    return Regression(rows=audit.unexplained, example=example, epoch=audit.epoch, at=audit.at)


def list_violated_checks(lake: PipelineLake) -> Iterator[Problem]:
    """Yield the violated checks that no later run has evaluated again, as one problem.

    Raises:
        LakeError: The record of the checks cannot be read.
    """
    violations = list_open_violations(lake)
    if violations:
        more = f" (and {count_noun(len(violations) - 1, 'more check')})" if len(violations) > 1 else ""
        text = visible(f"{violations[0].check}: {violations[0].text}{more}")
        yield Problem(runbook="InvariantBroken", text=text)


def list_foreign_writes(lake: PipelineLake) -> Iterator[Problem]:
    """Yield the changes that another writer made to the rows of a table.

    Raises:
        LakeError: A table cannot be read.
    """
    for change, _ in table_weights.list_table_changes(lake):
        if change.kind is Kind.FOREIGN:
            yield Problem(runbook=change.runbook, text=visible(change.sentence))


def list_pins(lake: PipelineLake, *, now: datetime) -> Iterator[Pin]:
    """Yield the pins in force, each with the time from which a fold may let its files be deleted.

    Raises:
        LakeError: The pins or the epoch log cannot be read.
    """
    version = versions.find_current_version(lake)
    rows = list_held(lake.settings, lake.name, now=now)
    if version is None or not rows or not delta.exists(version.uri):
        return
    retention = _parse_file_retention(delta.open_table(version.uri).metadata().configuration)
    for row in rows:
        yield Pin(
            holder=row.holder,
            epoch=row.epoch,
            expires_at=row.expires_at,
            files_until=row.at + retention,
        )


def _parse_file_retention(configuration: Mapping[str, str]) -> timedelta:
    """Parse how long a table keeps files that it no longer lists; without a setting, Delta keeps them for a week."""
    match = _INTERVAL.match(configuration.get("delta.deletedFileRetentionDuration", ""))
    return timedelta(hours=int(match[1]) * _HOURS_BY_UNIT[match[2].lower()]) if match else _DEFAULT_FILE_RETENTION


def find_schema_mismatches(
    pipeline: Pipeline, epoch_log: EpochLog, log: LogClient, epochs: Sequence[EpochRecord]
) -> Iterator[SchemaMismatch]:
    """Yield the first record of each kind in some epochs, oldest first.

    Raises:
        LakeError: The table cannot be read.
        LogError: The log does not answer, or no longer has the records.
    """
    if any(epoch.counts.get(Class.MALFORMED) for epoch in epochs):
        yield from _find_malformed(pipeline, epoch_log, log, epochs[0].epoch)
    with_unknown_fields = next((epoch for epoch in epochs if epoch.unknown), None)
    if with_unknown_fields is not None:
        yield from _find_unknown_field(pipeline, log, with_unknown_fields)


def describe_mismatch(value: bytes | None, topic: Topic) -> str | None:
    """Describe the field of a record that does not match the schema; None if no single field shows it."""
    if topic.parse in {"csv", "text"}:
        return _describe_text_mismatch(value, topic)
    for name in _list_unknown_fields(value, topic):
        return f"field `{visible(name)[:MAX_NAME_LENGTH]}` is not in the schema"
    # The event time first, since every narrowed topic needs it.
    for item in sorted(list_fields(topic), key=lambda item: item.name != topic.event_time):
        reason = parse_record(value, _narrow_topic(topic, item)).reason
        if reason in {Reason.TYPE, Reason.MISSING}:
            return _describe_field(item.label, item.type, reason)
    return None


def _describe_text_mismatch(value: bytes | None, topic: Topic) -> str | None:
    """Describe the first invalid field of a line of CSV, whose columns are where they are in the schema."""
    parsed = parse_record(value, topic)
    if parsed.unknown:
        return f"field {len(list_fields(topic)) + 1} is not in the schema"
    for invalid in parsed.invalid_fields:
        if invalid.reason in {Reason.TYPE, Reason.MISSING}:
            return _describe_field(invalid.name, invalid.type, invalid.reason)
    return None


def _describe_field(label: str, kind: str, reason: Reason) -> str:
    return f"field `{label}` {'is missing' if reason is Reason.MISSING else f'is no {kind}'}"


def _narrow_topic(topic: Topic, item: Field) -> Topic:
    """Return the topic with one field of its schema, and the event time, which every topic has."""
    column = f"`{item.name}` {item.type}" + ("" if item.nullable else " NOT NULL")
    time = "" if item.name == topic.event_time else f", `{topic.event_time}` timestamp"
    return replace(topic, schema=column + time)


def _list_unknown_fields(value: bytes | None, topic: Topic) -> list[str]:
    if value is None or not parse_record(value, topic).unknown:
        return []
    if topic.parse == "from_json":
        return list_unknown_names(value.decode("utf-8", "replace"), topic)
    if topic.parse == "protobuf":
        return list_unread_fields(value, topic)
    names = list_field_names(value) if topic.parse == "avro" else json.loads(value)
    return sorted(set(names) - {item.path[0] for item in list_fields(topic)})


def _find_malformed(
    pipeline: Pipeline, epoch_log: EpochLog, log: LogClient, first_epoch: int
) -> Iterator[SchemaMismatch]:
    connection = queries.open_duckdb()
    newest = epoch_log.newest()
    epoch_log.relation(connection, "rows", epoch=-1 if newest is None else newest.epoch)
    row = connection.execute(_FIRST_MALFORMED, [first_epoch, Reason.TYPE, Reason.MISSING]).fetchone()
    if row is None:
        return
    _, partition, offset, reason = row
    malformed = next(iter(log.read(topic_partitions.name_log(pipeline), {partition: [offset]})), None)
    topic = topic_partitions.find_source(pipeline, partition)
    description = None if malformed is None else describe_mismatch(malformed.value, topic)
    yield SchemaMismatch(
        description=description or f"a field does not fit ({reason})", partition=partition, offset=offset
    )


def _find_unknown_field(pipeline: Pipeline, log: LogClient, epoch: EpochRecord) -> Iterator[SchemaMismatch]:
    ranges = {p: (epoch.start.get(p, 0), end) for p, end in epoch.end.items()}
    record = _find_first(log.read_ranges(epoch.topic, ranges), pipeline)
    if record is not None:
        topic = topic_partitions.find_source(pipeline, record.partition)
        description = describe_mismatch(record.value, topic) or "an unknown field"
        yield SchemaMismatch(description=description, partition=record.partition, offset=record.offset)


def _find_first(records: Iterable[RawRecord], pipeline: Pipeline) -> RawRecord | None:
    """Find the first record with an unknown field, of the lowest partition that has one, in a bounded search."""
    first_by_partition: dict[int, RawRecord] = {}
    for _, record in zip(range(MAX_RECORDS), records, strict=False):
        if record.partition in first_by_partition:
            continue
        if parse_record(record.value, topic_partitions.find_source(pipeline, record.partition)).unknown:
            first_by_partition[record.partition] = record
    return first_by_partition[min(first_by_partition)] if first_by_partition else None


def measure_row_growth(epoch_log: EpochLog, now: datetime) -> RowGrowth:
    """Measure the rows added in the last hour, and in a usual hour of the week before it.

    Args:
        epoch_log: All of its epochs are read; those with a time count.
        now: End of the last hour.

    Raises:
        LakeError: A file cannot be read.
    """
    with queries.open_duckdb() as connection:
        delta.bind(connection, "epochs_by_hour", epoch_log.table, kinds=(RowKind.EPOCH,))
        with delta.naming(epoch_log.table):
            result = connection.execute(_ROWS_BY_HOUR, [now.timestamp(), USUAL_HOURS]).fetchall()
    rows_by_hour = {int(hours_ago): int(rows) for hours_ago, rows in result if rows}
    last_hour = rows_by_hour.pop(0, 0)
    usual = float(median(rows_by_hour.values())) if rows_by_hour else 0.0
    return RowGrowth(last_hour=last_hour, usual=usual, hours=len(rows_by_hour))


def sum_recent_bytes(epoch_log: EpochLog, epochs: Sequence[EpochRecord], now: datetime) -> int:
    """Sum the sizes of the files that the newest epochs added to a local table; zero for an object store."""
    if not epochs or delta.local_root(epoch_log.table) is None:
        return 0
    recent = [number for number, age in compute_epoch_ages(epochs, None, now).items() if age < GROWTH_SECONDS]
    first_epoch = min([epochs[-1].epoch + 1 - GROWTH_EPOCHS, *recent])
    return sum(size for newest, size in _list_files(epoch_log) if newest >= first_epoch)


def _list_files(epoch_log: EpochLog) -> Iterator[tuple[int, int]]:
    """Yield the newest epoch and the size of each file of an epoch log."""
    for action in delta.actions(epoch_log.table):
        newest = action.get("max._epoch")
        yield -1 if newest is None else int(newest), int(action["size_bytes"])


def measure_free_bytes(settings: Settings) -> Mapping[str, int]:
    """Measure the free bytes for the lake, temporary files of Spark, run-time files and reports, by place.

    Raises:
        LakeError: The free space of a place cannot be read.
    """
    places = {
        "lake": settings.lake_uri,
        "home": str(settings.home.resolve()),
        "temporary files of Spark": str(settings.home.resolve() / "tmp" / "spark"),
        "run-time files": str(settings.run_dir),
        "reports": str(settings.reports_dir),
    }
    try:
        folders = {name: place for name, place in places.items() if "://" not in place and Path(place).is_dir()}
        return {name: shutil.disk_usage(folder).free for name, folder in folders.items()}
    except OSError as error:
        msg = f"Free space: expected folders whose free space can be read, got: {error}."
        raise LakeError(msg, runbook="DiskHeadroomLow") from error
