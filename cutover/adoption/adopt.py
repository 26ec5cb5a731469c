"""Adoption of a team's jobs: reads what they have left behind, drafts a definition, and tests it against the log."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import duckdb

from cutover.adoption.batch_side import AdoptedBatchJob, adopt_batch_job
from cutover.adoption.completion import (
    Variant,
    choose_match,
    complete_draft,
    describe_decisions,
    list_variants,
)
from cutover.adoption.draft import Choose, JobDraft, Seen, Stated
from cutover.adoption.evidence import RecordSample, StreamTable, open_job_table, plan_read, read_planned, sample_records
from cutover.adoption.hypotheses import DraftCheck, Match, find_matches, verify
from cutover.adoption.proposal import begin_draft, list_event_times, propose
from cutover.adoption.query import QueryShape, describe_query
from cutover.adoption.trial import JobReading, Trial, evaluate_draft
from cutover.counts import count_noun
from cutover.definition.model.spark_stream import OutputMode
from cutover.engine import queries
from cutover.errors import DefinitionError, LogError
from cutover.log.kafka import LogClient
from cutover.output.console import ReportProgress
from cutover.positions.spark_checkpoint import SparkCheckpoint, read_checkpoint
from cutover.settings import Settings

_ORDER_NAME = re.compile("batch|epoch|version|updat|written|load")

MAX_EVENT_TIMES = 3
"""Fields that are tried as the event time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionRequest:
    """Jobs to adopt, and what the caller states of them."""

    name: str
    checkpoint: str
    stream: str  # Delta table
    batch: str | None  # table of the batch job: an absolute path, or an address
    topic: str | None
    time_format: str | None
    records: int  # that are read at most
    stated: Stated


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """Definition to write, and how far it was tested."""

    draft: JobDraft
    sampled: int  # records from which the schema was inferred
    tried: int  # hypotheses
    verification: DraftCheck | None
    obstacle: str | None  # why nothing was tested
    batch: AdoptedBatchJob | None = None

    @property
    def is_different(self) -> bool:
        """Return whether a cell of a table that was tested speaks against the definition."""
        checks = (None if self.obstacle else self.verification, self.batch.check if self.batch else None)
        return any(check is not None and check.cells > 0 and not check.is_exact for check in checks)


def adopt(settings: Settings, request: AdoptionRequest, choose: Choose, report: ReportProgress) -> Adoption:
    """Draft the definition of a team's streaming job, and test it.

    Args:
        settings: The cluster.
        request: The job.
        choose: Asks which of several values is meant.
        report: Shows what is done.

    Raises:
        DefinitionError: The job cannot be followed, or something has to be stated.
        LakeError: Checkpoint or table cannot be read.
        LogError: No broker responds, or the topic does not have what the job has read.
    """
    checkpoint = read_checkpoint(request.checkpoint)
    shape = describe_query(checkpoint)
    if request.topic not in {None, shape.topic}:
        msg = f"--topic: expected `{shape.topic}`, which the checkpoint names, got `{request.topic}`."
        raise DefinitionError(msg)
    with queries.open_duckdb() as connection:
        table = open_job_table(connection, request.stream, checkpoint)
        client = LogClient(settings)
        earliest = _check_log(client, shape.topic, checkpoint)
        report(f"Reading a sample of {shape.topic}")
        sample = sample_records(client, shape.topic, request.time_format)
        draft = begin_draft(request.name, request.checkpoint, shape, sample, request.stated)
        draft = propose(draft, shape, table, sample, stated=request.stated, choose=choose)
        plan = plan_read(
            checkpoint,
            table.batch,
            earliest,
            limit=request.records,
            delay=shape.delay,
            has_row_per_record=draft.row_per_record,
        )
        if isinstance(plan, str):
            adoption = _leave_untested(draft, shape, request.stated, choose, sample, plan)
            return _add_batch(connection, request, adoption, plan, choose)
        report(f"Reading {count_noun(plan.records, 'record')} of {count_noun(len(plan.batches), 'batch')}")
        columns = [draft.start_column, *(part.column for part in draft.key), *draft.value_columns]
        rows = table.read_rows(list(dict.fromkeys(columns)), draft.start_column, plan.whole_from)
        reading = JobReading(plan=plan, records=read_planned(client, shape.topic, plan), rows=rows)
        report("Trying hypotheses")
        adoption = _test(draft, shape, table, sample, reading, stated=request.stated, choose=choose)
        return _add_batch(connection, request, adoption, reading, choose)


def _add_batch(
    connection: duckdb.DuckDBPyConnection,
    request: AdoptionRequest,
    adoption: Adoption,
    reading: JobReading | str,
    choose: Choose,
) -> Adoption:
    if request.batch is None:
        return adoption
    return replace(adoption, batch=adopt_batch_job(connection, request.batch, adoption.draft, reading, choose))


def _check_log(client: LogClient, topic: str, checkpoint: SparkCheckpoint) -> dict[int, int]:
    """Return the first offsets of the log, which has to have what the query has read."""
    earliest, latest = client.earliest(topic), client.latest(topic, "read_uncommitted")
    for partition, end in checkpoint.batches[-1].ends[topic].items():
        if end > latest.get(partition, 0):
            msg = (
                f"Topic `{topic}`, partition {partition}: expected the offsets up to {end:,} that the query has read, "
            )
            hint = "\nHint: the topic was created again, lost records, or belongs to another cluster."
            raise LogError(msg + f"it ends at {latest.get(partition, 0):,}.{hint}")
    return earliest


def _leave_untested(
    draft: JobDraft, shape: QueryShape, stated: Stated, choose: Choose, sample: RecordSample, obstacle: str
) -> Adoption:
    """Complete a draft by names and places alone."""
    variant = list_variants(draft, shape)[0]
    untested = Match(
        draft=replace(draft, types=variant.types),
        rows=0,
        measures={
            column: tuple(c for c in variant.choices if c.expression is None or c.expression.strip("`") in column)
            for column in draft.value_columns
        },
        equal=dict.fromkeys(draft.value_columns, 0),
    )
    completed = complete_draft(untested, shape, stated, choose)
    seen = {
        name: replace(entry, text="its name alone", is_guess=True) if name.startswith("measures.") else entry
        for name, entry in completed.seen.items()
    }
    seen["where"] = Seen(text="not tested", is_guess=True)
    return Adoption(
        draft=replace(completed, seen=seen), sampled=sample.records, tried=0, verification=None, obstacle=obstacle
    )


def _test(  # noqa: PLR0913 -- what is known of a job
    draft: JobDraft,
    shape: QueryShape,
    table: StreamTable,
    sample: RecordSample,
    reading: JobReading,
    *,
    stated: Stated,
    choose: Choose,
) -> Adoption:
    """Try hypotheses, complete the draft by the best one, and verify the result."""

    def make_variants(variant_of: JobDraft) -> Sequence[Trial]:
        return [_evaluate(variant_of, variant, reading) for variant in list_variants(variant_of, shape)]

    tried, matches = 0, list[Match]()
    for parse in ("from_json", "strict"):
        drafts = [
            replace(draft, parse=parse, event_time=name, record_id=record_id)
            for name in list_event_times(shape, sample, stated)[:MAX_EVENT_TIMES]
            for record_id in _list_record_ids(draft)
        ]
        trials = [
            replace(trial, draft=replace(trial.draft, output_mode=mode, single_watermark=single, latest_by=latest_by))
            for trial in (evaluate_draft(each, (), reading) for each in drafts)
            for mode in _list_modes(draft, shape, table)
            for single in ((False, True) if shape.drops_late and mode != "complete" else (False,))
            for latest_by in _list_orders(draft, reading)
        ]
        found, count = find_matches(trials, make_variants, reading, is_filtered=stated.where is not None)
        tried += count
        if not matches or found[0].share > matches[0].share:
            matches = found
        if matches[0].share == 1:
            break
    match = choose_match(matches, stated, choose)
    completed = complete_draft(match, shape, stated, choose)
    verification = verify(completed, reading)
    return Adoption(
        draft=describe_decisions(completed, matches, verification, stated),
        sampled=sample.records,
        tried=tried,
        verification=verification,
        obstacle=None if verification.cells else "its batches hold no whole window that the table has to have",
    )


def _evaluate(draft: JobDraft, variant: Variant, reading: JobReading) -> Trial:
    return evaluate_draft(replace(draft, types=variant.types), variant.choices, reading)


def _list_record_ids(draft: JobDraft) -> list[str | None]:
    """List the ids by which a record that was sent twice may count once: a job may merge by the id of its rows."""
    if draft.record_id is not None or not draft.row_per_record:
        return [draft.record_id]
    return [None, draft.key[0].field]


def _list_modes(draft: JobDraft, shape: QueryShape, table: StreamTable) -> Sequence[OutputMode]:
    if table.output_mode is not None or draft.row_per_record or not shape.drops_late:
        return [draft.output_mode]
    return ["update", "append", "complete"]


def _list_orders(draft: JobDraft, reading: JobReading) -> list[str | None]:
    """List the columns that may order the rows of a window and key, if it has several."""
    names = [draft.start_column, *(part.column for part in draft.key)]
    keys = [tuple(row[name] for name in names) for row in reading.rows]
    if draft.row_per_record or len(set(keys)) == len(keys):
        return [None]
    values: dict[str, set[object]] = {name: set() for name in draft.value_columns}
    for key, row in zip(keys, reading.rows, strict=True):
        for name, known in values.items():
            if row[name] is not None:
                known.add((key, row[name]))
    orders = [name for name, known in values.items() if len(known) == len(keys)]
    orders.sort(key=lambda name: _ORDER_NAME.search(name.lower()) is None)
    return list(orders[:1]) or [None]
