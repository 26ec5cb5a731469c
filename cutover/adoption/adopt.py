"""Adoption of a team's jobs: reads what they have left behind, drafts a definition, and tests it against the log."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import duckdb

from cutover.adoption.batch_side import AdoptedBatchJob, adopt_batch_job
from cutover.adoption.completion import complete_draft, list_variants
from cutover.adoption.draft import Choose, JobDraft, MeasureChoice, Seen, Stated, parse_measure
from cutover.adoption.evidence import QueryShape, describe_query, open_job_table, plan_read, read_planned
from cutover.adoption.hypotheses import DraftCheck, Match
from cutover.adoption.proposal import begin_draft, propose
from cutover.adoption.sample import RecordSample, sample_records
from cutover.adoption.search import Job, UnexplainedColumn, reject_days, reject_untested_days, search_definition
from cutover.adoption.trial import JobReading
from cutover.counts import count_noun
from cutover.definition.checks.measures import check_measure, reject_field
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.measures.kinds import Count
from cutover.engine import queries
from cutover.engine.schema_store import SchemaStore
from cutover.errors import DefinitionError, LogError
from cutover.log.kafka import LogClient
from cutover.output.console import ReportProgress
from cutover.positions.spark_checkpoint import SparkCheckpoint, read_checkpoint
from cutover.records.parsing.writer_schemas import bind_source
from cutover.settings import Settings

_CAST = re.compile(r"cast\s*\(\s*`?(\w+)`?\s+as\s+(\w+(?:\s*\([\d\s,]+\))?)", re.IGNORECASE)
NO_WHOLE_WINDOW = "its batches hold no whole window that the table has to have"


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
    unexplained: Mapping[str, UnexplainedColumn] = field(default_factory=dict)  # column of the table
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
        bind_source(SchemaStore(settings))  # by which values in Avro are read
        earliest = _check_log(client, shape.topic, checkpoint)
        report(f"Reading a sample of {shape.topic}")
        sample = sample_records(client, shape.topic, request.time_format).state_types(request.stated.types)
        draft = begin_draft(request.name, request.checkpoint, shape, sample, request.stated)
        draft = propose(draft, shape, table, sample, stated=request.stated, choose=choose)
        draft = replace(draft, types={**draft.types, **draft.stated_types})
        draft = check_stated(draft, request.stated)
        plan = plan_read(
            checkpoint,
            table.batch,
            earliest,
            limit=request.records,
            delay=shape.delay,
            has_row_per_record=draft.row_per_record,
        )
        if isinstance(plan, str) and shape.day is not None:
            raise reject_untested_days(draft.start_column, plan)
        if isinstance(plan, str):
            adoption = _leave_untested(draft, shape, request.stated, choose, sample, plan)
            return _add_batch(connection, request, adoption, plan, choose)
        report(f"Reading {count_noun(plan.records, 'record')} of {count_noun(len(plan.batches), 'batch')}")
        rows = table.read_rows(draft.list_table_columns(), draft.start_column, plan.whole_from)
        reading = JobReading(plan=plan, records=read_planned(client, shape.topic, plan), rows=rows)
        report("Trying hypotheses")
        job = Job(shape=shape, table=table, sample=sample, stated=request.stated, choose=choose)
        return _add_batch(connection, request, _test(draft, job, reading), reading, choose)


def check_stated(draft: JobDraft, stated: Stated) -> JobDraft:
    """Reject a stated filter or measure that no definition can have, before the records are read.

    Returns:
        The draft; fields that the filter compares with texts are texts, although most of their values are numbers.

    Raises:
        DefinitionError: With the option that states the type of a field, if a cast is rejected.
    """
    try:
        _compile(draft, None)
    except DefinitionError:
        compared = set(re.findall(r"\w+", draft.where or "")) & draft.text_numbers.keys() - draft.stated_types.keys()
        draft = replace(draft, types={**draft.types, **dict.fromkeys(compared, "string")})
        _compile(draft, None)
    for column, text in stated.measures.items():
        _compile(replace(draft, where=None), (column, parse_measure(column, text)))
    return draft


def _compile(draft: JobDraft, stated: tuple[str, MeasureChoice] | None) -> None:
    """Compile the expressions of a draft, and perhaps of a stated measure; errors name the option that states them."""
    pipeline = draft.make_pipeline({"measure": Count() if stated is None else stated[1].make()})
    try:
        compiled = compile_pipeline(pipeline)
        if compiled.where is not None and compiled.where.type != "boolean":
            reject_field("where", "a condition", f"{compiled.where.type}: `{compiled.where.text}`")
        check_measure("measures.measure", pipeline.measures["measure"], compiled.measured_type("measure"))
    except DefinitionError as error:
        part, _, text = str(error).partition(": ")
        option = part.replace("where", "--where").replace("derive.", "--key ")
        message = f"{option if stated is None else f'--measure {stated[0]}'}: {text}"
        raise _add_type_hint(message) from None


def _add_type_hint(message: str) -> DefinitionError:
    """Return the error of a stated expression; that of a cast names the option by which the field has this type."""
    cast = _CAST.search(message)
    if cast is None or "expected a cast" not in message:
        return DefinitionError(message)
    hint = f'`--type "{cast[1]}={cast[2]}"` reads the field so, a text that is no number as null; then without the cast'
    return DefinitionError(f"{message}\nHint: {hint}: `{cast[1]}`.")


def _test(draft: JobDraft, job: Job, reading: JobReading) -> Adoption:
    """Find what reproduces the table."""
    if job.shape.day is not None:
        raise reject_days(draft, job, reading)
    result = search_definition(draft, job, reading)
    return Adoption(
        draft=result.draft,
        sampled=job.sample.records,
        tried=result.tried,
        verification=result.verification,
        unexplained=result.unexplained,
        obstacle=None if result.verification.cells else NO_WHOLE_WINDOW,
    )


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
