"""Adoption of a team's jobs: reads what they have left behind, drafts a definition, and tests it against the log.

Of a batch job it finds which columns its table has, and whether it has the rows of the definition.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import duckdb

from cutover.adoption.completion import complete_draft, list_variants
from cutover.adoption.draft import Choose, JobDraft, MeasureChoice, Question, Seen, Stated, parse_measure
from cutover.adoption.evidence import QueryShape, describe_query, open_job_table, plan_read, read_planned
from cutover.adoption.hypotheses import DraftCheck, Match, verify
from cutover.adoption.proposal import begin_draft, propose
from cutover.adoption.sample import RecordSample, sample_records
from cutover.adoption.search import (
    Job,
    UnexplainedColumn,
    find_local_windows,
    reject_days,
    reject_untested_days,
    search_definition,
)
from cutover.adoption.trial import JobReading, evaluate_draft
from cutover.counts import count_noun
from cutover.definition.checks.measures import check_measure, reject_field
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.measures.kinds import Count
from cutover.definition.model.batch_job import BatchJob, Iceberg, Parquet, Postgres
from cutover.definition.model.pipeline import WINDOW_START, Delta
from cutover.engine import queries
from cutover.engine.schema_store import SchemaStore
from cutover.errors import DefinitionError, LogError
from cutover.log.kafka import LogClient
from cutover.output.console import ReportProgress
from cutover.positions.batch_table import bind_job_table, find_job_table_kind
from cutover.positions.position import Position, UnknownPosition
from cutover.positions.spark_checkpoint import SparkCheckpoint, read_checkpoint
from cutover.quoting import identifier
from cutover.records.parsing.writer_schemas import bind_source
from cutover.settings import Settings
from cutover.sources.addresses import mask_source
from cutover.sources.binding import open_binder, types_of
from cutover.timestamps import drop_zone, shorten_duration

_VIEW = "adopted_batch_job"
_MAX_STARTS = 10_000
_NUMBERS = re.compile(r"(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedBatchJob:
    """Batch job of a definition, and how far its table was tested."""

    job: BatchJob
    check: DraftCheck | None  # None: not tested
    obstacle: str | None  # why it was not tested

    def render(self) -> str:
        """Render the value of `batch` in a definition."""
        columns = f", columns={json.dumps(dict(self.job.columns))}" if self.job.columns else ""
        match self.job.table:
            case Postgres(table=table, server=server):
                kind = f"Postgres(table={json.dumps(table)}, server={json.dumps(server)})"
            case Iceberg(table=place) | Delta(path=place) | Parquet(path=place):
                kind = f"{type(self.job.table).__name__}({json.dumps(place)})"
        return f"BatchJob(table={kind}{columns})"

    def describe(self) -> str:
        """Describe how far the table of the batch job was tested."""
        if self.check is None:
            return f"Batch table: not tested; {self.obstacle}."
        cells = f"{self.check.equal_cells:,} of {count_noun(self.check.cells, 'cell')}"
        how_many = "all" if self.check.is_exact else "only"
        return f"Batch table: the definition reproduces {how_many} {cells} at its position."


def adopt_batch_job(
    connection: duckdb.DuckDBPyConnection, place: str, draft: JobDraft, reading: JobReading | str, choose: Choose
) -> AdoptedBatchJob:
    """Find the columns of a batch job's table, and compare it with the definition at the position that it has recorded.

    Args:
        connection: For its rows.
        place: Of the table.
        draft: The complete definition.
        reading: Records that were read for the streaming job; or why none were.
        choose: Asks which column is meant.

    Raises:
        DefinitionError: A column is missing, or the table cannot be compared by windows.
        LakeError: It cannot be read.
    """
    if draft.window.merges:
        msg = "--batch: expected fixed or sliding windows, by whose start alone a row of the batch table is assigned, "
        raise DefinitionError(msg + "the streaming job has sessions.\nHint: adopt it without `--batch`.")
    if draft.row_per_record:
        msg = "--batch: expected a streaming job with a row per window and key, by which the batch table is compared."
        raise DefinitionError(msg + "\nHint: `cutover diff` compares two tables with a row per record.")
    job = BatchJob(table=find_job_table_kind(place))
    with open_binder(connection, None) as binder, bind_job_table(binder, _VIEW, job) as bound:
        if isinstance(bound, UnknownPosition):
            untyped: frozenset[str] = binder.bind(_VIEW, place).untyped
        else:
            untyped = bound.untyped
        names = dict(_map_columns(connection, draft, place, choose))
        renamed = {name: column for name, column in names.items() if column not in {name, "window.start"}}
        job = replace(job, columns=renamed)
        if isinstance(reading, str):
            return AdoptedBatchJob(job=job, check=None, obstacle=reading)
        obstacle = bound.reason if isinstance(bound, UnknownPosition) else _find_gap(bound.position, draft, reading)
        if obstacle is not None or isinstance(bound, UnknownPosition):
            return AdoptedBatchJob(job=job, check=None, obstacle=obstacle)
        rows = list(_read_rows(connection, list(names.values()), untyped))
        ends = bound.position.topics[draft.topic]
    records = [[r for r in batch if r.offset < ends.get(r.partition, 0)] for batch in reading.records]
    batch_draft, batch_reading = _make_batch_draft(draft, names), replace(reading, records=records, rows=rows)
    check = verify(batch_draft, batch_reading)
    if not rows:
        return AdoptedBatchJob(job=job, check=None, obstacle="it has no rows at its position")
    if not check.is_exact:
        _check_zone(batch_draft, batch_reading, place)
    if check.has_other_rows:
        columns = ", ".join(f"`{name}` in `{column}`" for name, column in list(names.items())[: len(draft.key) + 1])
        msg = f"--batch `{mask_source(place)}`: expected rows with the windows and keys of the definition ({columns}), "
        hint = "\nHint: the job groups by something else, or another of its columns has the key."
        msg += f"{check.describe_other_rows()}.{hint}"
        raise DefinitionError(msg)
    return AdoptedBatchJob(job=job, check=check, obstacle=None)


def _check_zone(draft: JobDraft, reading: JobReading, place: str) -> None:
    """Reject a table whose windows are others than those of the streaming job, such as days of a zone.

    Raises:
        DefinitionError: They reproduce every cell of the table.
    """
    trial = evaluate_draft(draft, tuple(dict.fromkeys(draft.measures.values())), reading)
    windows = find_local_windows([trial], lambda _: [trial], reading, is_filtered=True)
    if windows is not None and windows.is_exact:
        expected = f"expected the windows of the streaming job ({shorten_duration(draft.window.reach or 0)} in UTC)"
        msg = f"--batch `{mask_source(place)}`: {expected}, those of the table are {windows.describe()}, which "
        msg += f"reproduce {windows.describe_cells()}.\nHint: a definition has one window for both jobs, and no zone: "
        raise DefinitionError(msg + "adopt the streaming job without `--batch`.")


def _find_gap(position: Position, draft: JobDraft, reading: JobReading) -> str | None:
    """Find why a table cannot be tested with the records that were read."""
    read_to = reading.plan.batches[-1].ends
    if set(position.topics) != {draft.topic}:
        return f"its position is one of {', '.join(sorted(position.topics))}, expected `{draft.topic}`"
    if position.upto is not None:
        return "its position is bounded; `cutover reconcile` judges the rows that it can"
    if any(end > read_to.get(partition, 0) for partition, end in position.topics[draft.topic].items()):
        return "it has read beyond the newest batch of the streaming job; `cutover reconcile` compares it"
    return None


def _map_columns(
    connection: duckdb.DuckDBPyConnection, draft: JobDraft, place: str, choose: Choose
) -> Iterator[tuple[str, str]]:
    """Yield each name of the definition with the column of the table that has it."""
    used, types = set[str](), types_of(connection, _VIEW)
    wanted: list[tuple[str, tuple[str, ...], Sequence[str]]] = [
        (WINDOW_START, (WINDOW_START, draft.start_column), [c for c, kind in types.items() if _is_time(kind)]),
        *((part.field, (part.field, part.column), [c for c, k in types.items() if _is_key(k)]) for part in draft.key),
        *((draft.name_measure(column), (column, draft.name_measure(column)), list(types)) for column in draft.measures),
    ]
    own = {known.lower() for _, names, _ in wanted for known in names}  # a column with such a name is another one's
    for name, names, candidates in wanted:
        others = own - {known.lower() for known in names}
        free = [column for column in candidates if column not in used and column.lower() not in others]
        named = next((c for c in free if c.lower() in {known.lower() for known in names}), None)
        if name in draft.make_measures():
            # PostgreSQL's numeric without a precision is a text here.
            free = [c for c in free if _NUMBERS.fullmatch(types[c]) or types[c] == "VARCHAR"] or free
        if named is None and name == WINDOW_START and types.get("window", "").startswith("STRUCT"):
            named = "window.start"
        elif named is None and name == WINDOW_START:
            free = _find_starts(connection, free, draft)
        if named is None and not free:
            msg = f"--batch `{mask_source(place)}`: expected a column for `{name}`, it has {', '.join(types)}."
            raise DefinitionError(msg)
        question = Question(
            option=f'columns={{"{name}": ...}}` in the definition, without `--batch',
            part=f"the column of the batch table with `{name}`",
            choices=tuple(free),
            reason="no column has this name",
        )
        column = named or (free[0] if name == WINDOW_START and len(free) == 1 else choose(question))
        used.add(column)
        yield name, column


def _find_starts(connection: duckdb.DuckDBPyConnection, columns: list[str], draft: JobDraft) -> list[str]:
    """Find the columns whose values are starts of the definition's windows, all of them if none is.

    Of several, a start determines the others, such as the day of an hour, and is before the end that it determines.
    """
    micros = {column: f"epoch_us({identifier(column)}::TIMESTAMP)" for column in columns}

    def fetch(expression: str) -> int:
        return queries.fetch_number(connection, f"SELECT {expression} FROM {_VIEW}")  # noqa: S608 -- quoted

    def is_start(column: str) -> bool:
        query = f"SELECT DISTINCT {micros[column]} FROM {_VIEW} ORDER BY 1 LIMIT {_MAX_STARTS}"  # noqa: S608 -- quoted
        values = [row[0] for row in connection.execute(query).fetchall() if row[0] is not None]
        windows = ({window.start for window in draft.window.assign_windows(value)} for value in values)
        return bool(values) and all(value in starts for value, starts in zip(values, windows, strict=True))

    def determines(column: str, other: str) -> bool:
        pair = f"count(DISTINCT {micros[column]}) - count(DISTINCT ({micros[column]}, {micros[other]}))"
        return fetch(pair) == 0

    starts = [column for column in columns if is_start(column)]
    finest = [column for column in starts if all(determines(column, other) for other in starts)]
    first = [c for c in finest if all(fetch(f"coalesce(min({micros[o]} - {micros[c]}), 0)") >= 0 for o in finest)]
    return first or finest or starts or columns


def _is_time(kind: str) -> bool:
    return kind.startswith("TIMESTAMP") or kind == "DATE"


def _is_key(kind: str) -> bool:
    return not (_is_time(kind) or kind in {"DOUBLE", "FLOAT"} or kind.startswith(("DECIMAL", "STRUCT")))


def _read_rows(
    connection: duckdb.DuckDBPyConnection, columns: Sequence[str], untyped: frozenset[str]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the view; times are in UTC, without a zone."""
    selected = ", ".join(f"{'.'.join(map(identifier, name.split('.')))} AS {identifier(name)}" for name in columns)
    for row in queries.query_table(connection, f"SELECT {selected} FROM {_VIEW}").to_pylist():  # noqa: S608 -- quoted
        yield {n: Decimal(v) if n in untyped and v is not None else drop_zone(v) for n, v in row.items()}


def _make_batch_draft(draft: JobDraft, names: Mapping[str, str]) -> JobDraft:
    """Make the definition as the batch job computes it: without late records, and with the columns of its table."""
    return replace(
        draft,
        start_column=names[WINDOW_START],
        key=tuple(replace(part, column=names[part.field]) for part in draft.key),
        measures={names[draft.name_measure(column)]: choice for column, choice in draft.measures.items()},
        value_columns={names[draft.name_measure(column)]: draft.value_columns[column] for column in draft.measures},
        output_mode="complete",
        latest_by=None,
    )


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
