"""SQL that would correct the table of a team's own job: the rows that the comparison finds to differ, never run.

Rows are addressed by window and key. A row that the table has once is updated, so that its other columns stay; a row
that it has more than once is deleted and inserted. The statements keep the position of a batch job, since they make the
table what the job should have written up to it.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from sqlglot import exp

from cutover.definition.checks.team_jobs import has_parts_of_sessions
from cutover.definition.measures.kinds import Count
from cutover.definition.model.batch_job import (
    BatchJob,
    CompactedTopic,
    Iceberg,
    Parquet,
    Postgres,
    describe_job_table,
    find_batch_job,
)
from cutover.definition.model.pipeline import WINDOW_START, SparkStream
from cutover.definition.windows.kinds import SlidingWindows
from cutover.engine.queries import query_table
from cutover.errors import DefinitionError, LakeError
from cutover.lake.registered_functions import CHANGED, EXTRA, LEFT_OUT, MISSING, REPEATED, JobRepair
from cutover.lake.tables import delta
from cutover.output.cells import visible
from cutover.pipeline_lake import PipelineLake
from cutover.positions.batch_table import find_job_position
from cutover.positions.position import Position, format_topic_offsets
from cutover.positions.table_metadata import PROPERTY
from cutover.positions.table_position import POSITION_TABLE
from cutover.quoting import identifier, literal, spark_identifier, spark_literal
from cutover.reconcile.comparison.batch_job import compare_batch_job
from cutover.reconcile.comparison.job_table import JobLink, compare_streaming_job, map_columns
from cutover.reconcile.comparison.sides import Sides, open_sides
from cutover.reconcile.preconditions import seal
from cutover.reconcile.preconditions.seal import SealEvidence
from cutover.reconcile.result.parts import JobSide, JobTable

BACKSLASH = "\\"
MAX_ROWS = 10_000
"""Largest number of rows for which SQL is drafted: beyond it, the job has to run again."""

_DELTA_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_ICEBERG_METADATA = f"spark.sql.iceberg.snapshot-property.{PROPERTY}"
_RUN_AGAIN = "\nHint: run the job again for these windows."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """Row of a job's table that differs from what the definition says."""

    key: tuple[str | None, ...]  # window start, then the key, as texts of the table's types
    values: tuple[str | None, ...] | None  # that the definition says; None: no such row
    in_table: int  # rows of this window and key
    has_other_count: bool  # of a table with a row per record: records are missing, or are in it more than once


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """Table whose rows are corrected."""

    name: str  # quoted in its dialect
    columns: Mapping[str, str]  # of what addresses a row, then of its values: name -> column, or `column.field`
    keys: int  # how many of them address a row
    types: Mapping[str, str]  # of the same names, as DuckDB calls them
    computed: Mapping[str, str]  # further fields of structs -> SQL from the columns of a source `s`
    can_insert: bool  # the definition knows all that a row needs

    def select_key(self, row: _Row) -> tuple[str | None, ...]:
        """Return the part of a row's key that addresses it."""
        return row.key[-self.keys :]


def draft_job_repair(lake: PipelineLake, side: str) -> JobRepair:
    """Draft SQL for the table of a pipeline's streaming or batch job; nothing is written.

    Raises:
        DefinitionError: There is no such job, or rows of its table cannot be addressed.
        LakeError: The table cannot be compared, or too many rows differ.
    """
    link = _check_addressable(lake, side)
    examined = seal.evaluate_seal(lake, epoch=None)
    if examined.evidence is None:
        breach = examined.seal.breaches[0]
        raise LakeError(breach.message, runbook=breach.runbook)
    with open_sides(lake, examined.evidence) as sides:
        table = _compare(lake, examined.evidence, sides, link)
        types = {str(row[0]): str(row[1]) for row in sides.connection.execute(f"DESCRIBE {link.rows}").fetchall()}
        rows = list(_list_rows(lake, sides, link, types))
        target = _make_target(lake, link, types)
    kinds = Counter(_classify(target, row) for row in rows)
    draft = JobRepair(
        job=link.side,
        dialect="postgres" if _is_postgres(lake, link) else "spark",
        table=link.place,
        state=_describe_state(table),
        rows=kinds,
        doubts=table.doubts,
        next_step=_NEXT_STEPS[link.side],
        statements=(),
    )
    drafted = [row for row in rows if _classify(target, row) != LEFT_OUT]
    if not drafted:
        return draft
    if draft.dialect == "postgres":
        place = cast("Postgres", _get_job(lake).table).table
        return replace(draft, statements=tuple(_list_postgres_statements(target, place, drafted)))
    position = _read_position(lake, table) if link.side == "batch" else None
    return replace(draft, statements=tuple(_list_spark_statements(target, position, drafted)))


def _classify(target: _Target, row: _Row) -> str:
    """Return what is to be done with a row."""
    if row.values is None:
        return EXTRA
    if not target.can_insert and (row.has_other_count or not row.in_table):
        return LEFT_OUT
    return CHANGED if row.in_table == 1 else REPEATED if row.in_table else MISSING


def _get_job(lake: PipelineLake) -> BatchJob:
    return cast("BatchJob", find_batch_job(lake.pipeline.batch))


_NEXT_STEPS: Mapping[JobSide, str] = {
    "streaming": "Stop the job, run the statements in one session, and start it again: the comparison at its next batch"
    " reads the corrected table. The job itself stays as it is, so correct it, too.",
    "batch": "Run the statements in one session while the job does not run, then `cutover reconcile P`. The job itself"
    " stays as it is, so correct it, too: its next run writes what it computes.",
}


def _describe_state(table: JobTable) -> str:
    version = "" if table.version is None else f", version {table.version} of its table"
    return f"batch {table.batch}{version}" if table.position is None else f"position {table.position}{version}"


def _check_addressable(lake: PipelineLake, side: str) -> JobLink:
    """Check that the rows of a job's table can be addressed by window and key, and return its link.

    Raises:
        DefinitionError: They cannot, or there is no such job.
    """
    name, stream, job = lake.name, lake.pipeline.stream, find_batch_job(lake.pipeline.batch)
    if side == "streaming" and stream is not None:
        reason = _find_streaming_reason(lake, stream)
        place, columns = stream.table.path, stream.columns
    elif side == "batch" and job is not None:
        reason = _find_batch_reason(job)
        place, columns = describe_job_table(job.table), job.columns
    else:
        jobs = [*(["streaming"] if stream is not None else []), *(["batch"] if job is not None else [])]
        msg = f"Repair of `{name}`: expected `--job` {' or '.join(jobs) or 'of a pipeline with a job of your own'},"
        raise DefinitionError(msg + f" got `{side[:40]}`.\nHint: `--window` repairs Cutover's own tables.")
    if reason is not None:
        msg = f"Repair of `{name}`: expected rows of the {side} job that SQL can address, got {reason}."
        raise DefinitionError(msg + _RUN_AGAIN)
    return JobLink(side=cast("JobSide", side), place=place, columns=columns, expected="")


def _find_streaming_reason(lake: PipelineLake, stream: SparkStream) -> str | None:
    """Find why single rows of a streaming job's table cannot be corrected; None: they can."""
    if stream.output_mode == "complete":
        return "a table that the job replaces with every batch"
    if lake.pipeline.join is not None:
        return "pairs of a join of two topics"
    if has_parts_of_sessions(lake.pipeline, stream):
        return "sessions of which the table may have several rows"
    if not stream.row_per_record:
        return None
    if lake.pipeline.source.record_id not in lake.pipeline.key:
        return "a row per record without an id in the key of the definition"
    return None


def _find_batch_reason(job: BatchJob) -> str | None:
    if isinstance(job.table, Parquet):
        return "a folder of Parquet files, whose rows cannot be changed"
    if isinstance(job.table, CompactedTopic):
        return "a compacted topic, to which no SQL writes"
    if isinstance(job.table, Iceberg) and "://" not in job.table.table:
        return "a folder of Iceberg, which has no name in a catalog"
    return None


def _is_postgres(lake: PipelineLake, link: JobLink) -> bool:
    job = find_batch_job(lake.pipeline.batch)
    return link.side == "batch" and job is not None and isinstance(job.table, Postgres)


def _compare(lake: PipelineLake, evidence: SealEvidence, sides: Sides, link: JobLink) -> JobTable:
    compare = compare_streaming_job if link.side == "streaming" else compare_batch_job
    table = compare(lake, evidence, sides)
    if table is None:
        msg = f"Repair of `{lake.name}`: expected a comparison with the {link.side} job, it is not compared now."
        raise LakeError(msg)
    if table.different > MAX_ROWS:
        msg = f"Repair of `{lake.name}`: expected at most {MAX_ROWS:,} rows to correct, got {table.different:,}."
        raise LakeError(msg + _RUN_AGAIN)
    return table


def _list_rows(lake: PipelineLake, sides: Sides, link: JobLink, types: Mapping[str, str]) -> Iterator[_Row]:
    """Yield the windows and keys in which rows differ, with what the definition says of them."""
    keys, values = (WINDOW_START, *lake.pipeline.key), _list_written(lake, link)
    of_key = [f"{_to_text(f'a.{identifier(name)}', types[name])} AS {identifier(f'k_{name}')}" for name in keys]
    of_value = [f"{_to_text(f'x.{identifier(name)}', types[name])} AS {identifier(f'v_{name}')}" for name in values]
    same, expected = (
        " AND ".join(f"{rows}.{identifier(name)} IS NOT DISTINCT FROM a.{identifier(name)}" for name in keys)
        for rows in ("j", "x")
    )
    counts = [f"d_{name}" for name in link.list_values(lake.pipeline) if name not in values]
    has_other_count = " OR ".join(f"coalesce(bool_or({identifier(name)}), false)" for name in counts) or "false"
    columns = ", ".join(map(identifier, keys))
    apart = f"SELECT {columns}, {has_other_count} AS has_other_count FROM {link.apart} GROUP BY {columns}"
    query = f"""
        SELECT {", ".join([*of_key, *of_value])}, x.__is_there IS NOT NULL AS is_expected, a.has_other_count,
            (SELECT count(*) FROM {link.rows} j WHERE {same}) AS in_table
        FROM ({apart}) a LEFT JOIN (SELECT *, true AS __is_there FROM {link.judged}) x ON {expected}
        ORDER BY ALL
    """
    for row in query_table(sides.connection, query).to_pylist():
        yield _Row(
            key=tuple(row[f"k_{name}"] for name in keys),
            values=tuple(row[f"v_{name}"] for name in values) if row["is_expected"] else None,
            in_table=int(row["in_table"]),
            has_other_count=bool(row["has_other_count"]),
        )


def _list_written(lake: PipelineLake, link: JobLink) -> tuple[str, ...]:
    """List the values that a row has as columns: a table with a row per record has no counts."""
    values = link.list_values(lake.pipeline)
    if not _has_row_per_record(lake, link):
        return values
    return tuple(name for name in values if not isinstance(lake.pipeline.measures[name], Count))


def _has_row_per_record(lake: PipelineLake, link: JobLink) -> bool:
    stream = lake.pipeline.stream
    return link.side == "streaming" and stream is not None and stream.row_per_record


def _to_text(column: str, kind: str) -> str:
    """Return SQL of a value as the text from which a type of the table reads it; times are in UTC."""
    value = f"CAST({column} AS {kind})"
    if kind == "TIMESTAMP WITH TIME ZONE":
        return f"strftime({value} AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M:%S.%fZ')"
    return f"CAST({value} AS VARCHAR)"


def _make_target(lake: PipelineLake, link: JobLink, types: Mapping[str, str]) -> _Target:
    """Return the table with the columns that its rows are addressed by, and those that are written."""
    pipeline, is_by_record = lake.pipeline, _has_row_per_record(lake, link)
    structs, name = _read_structs(lake, link)
    columns = map_columns(lake, link, structs)
    # The window of a record follows from its event time, which is not written.
    keys = pipeline.key if is_by_record else (WINDOW_START, *pipeline.key)
    written = (*keys, *_list_written(lake, link))
    head, _, field = columns[WINDOW_START].partition(".")
    computed = {}
    if isinstance(pipeline.window, SlidingWindows) and field == "start" and "end" in structs.get(head, ()):
        size = pipeline.window.size / 1e6
        computed[f"{head}.end"] = f"s.s0 + make_dt_interval(0, 0, 0, CAST('{size:.6f}' AS DECIMAL(18,6)))"
    return _Target(
        name=name,
        columns={name: columns[name] for name in written},
        keys=len(keys),
        types={name: types[name] for name in written},
        computed=computed,
        can_insert=not is_by_record,
    )


def _read_structs(lake: PipelineLake, link: JobLink) -> tuple[dict[str, tuple[str, ...]], str]:
    """Read the columns of a Delta table with the fields of its structs, and return them with the quoted name."""
    table = _get_job(lake).table if link.side == "batch" else None
    if isinstance(table, Postgres):
        return {}, ".".join(map(identifier, table.table.split(".")))
    if isinstance(table, Iceberg):
        catalog, _, place = table.table.partition("://")[2].partition("/")
        return {}, ".".join(map(spark_identifier, (catalog, *place.split("."))))
    schema = delta.open_table(link.place).schema()
    fields = {field.name: getattr(field.type, "fields", ()) for field in schema.fields}
    structs = {name: tuple(field.name for field in inner) for name, inner in fields.items()}
    return structs, f"delta.{spark_identifier(link.place)}"


def _list_postgres_statements(target: _Target, place: str, rows: Sequence[_Row]) -> Iterator[str]:
    """Yield one transaction; the server reads each quoted text by the type of its column."""
    columns = [identifier(column) for column in target.columns.values()]
    yield "BEGIN"
    for row in rows:
        kind, key = _classify(target, row), [_quote(text) for text in target.select_key(row)]
        where = " AND ".join(
            f"{column} IS NOT DISTINCT FROM {text}" for column, text in zip(columns, key, strict=False)
        )
        values = [_quote(text) for text in row.values or ()]
        if kind in {EXTRA, REPEATED}:
            yield f"DELETE FROM {target.name} WHERE {where}"
        if kind == CHANGED:
            pairs = zip(columns[target.keys :], values, strict=True)
            yield f"UPDATE {target.name} SET {', '.join(f'{column} = {text}' for column, text in pairs)} WHERE {where}"
        elif kind in {MISSING, REPEATED}:
            yield f"INSERT INTO {target.name} ({', '.join(columns)}) VALUES ({', '.join([*key, *values])})"
    *schema, name = place.split(".")
    positions = ".".join(map(identifier, (*schema, POSITION_TABLE)))
    names = ", ".join(map(literal, dict.fromkeys((name, place))))
    # A row of the same transaction as its position was not written after it.
    yield f"UPDATE {positions} SET position = position WHERE table_name IN ({names})"
    yield "COMMIT"


def _quote(text: str | None) -> str:
    """Quote a text for PostgreSQL; characters that a terminal obeys or does not show are escaped."""
    if text is None or visible(text) == text:
        return "NULL" if text is None else literal(text)
    return f"E{literal(_escape_unusual(text.replace(BACKSLASH, 2 * BACKSLASH)))}"


def _quote_for_spark(text: str | None) -> str:
    return "NULL" if text is None else _escape_unusual(spark_literal(text))


def _escape_unusual(text: str) -> str:
    """Replace control and format characters by the escapes that Spark and PostgreSQL share."""
    return "".join(
        character
        if visible(character) == character
        else f"\\u{ord(character):04x}"
        if ord(character) <= 0xFFFF  # noqa: PLR2004 -- longer ones have eight digits
        else f"\\U{ord(character):08x}"
        for character in text
    )


def _list_spark_statements(target: _Target, position: str | None, rows: Sequence[_Row]) -> Iterator[str]:
    """Yield statements of Spark SQL, for a batch job's table with its position in each commit."""
    setting = _DELTA_METADATA if target.name.startswith("delta.") else spark_identifier(_ICEBERG_METADATA)
    yield "SET TIME ZONE 'UTC'"
    if position is not None:
        yield f"SET {setting} = {position}"
    deleted = [target.select_key(row) for row in rows if _classify(target, row) in {EXTRA, REPEATED}]
    written = [(*target.select_key(row), *row.values) for row in rows if row.values is not None]
    if deleted:
        yield f"{_merge_into(target, deleted)}\nWHEN MATCHED THEN DELETE"
    if written:
        yield f"{_merge_into(target, written)}\n{_list_clauses(target)}"
    if position is not None:
        yield f"RESET {setting}"


def _merge_into(target: _Target, rows: Sequence[Sequence[str | None]]) -> str:
    """Return a MERGE up to its clauses; its source has the columns `s0`, `s1`, ... in the order of the target."""
    width = len(rows[0])
    names = list(target.columns)[:width]
    lines = ",\n    ".join(f"({', '.join(map(_quote_for_spark, row))})" for row in rows)
    columns = ", ".join(f"CAST(s{n} AS {_to_spark_type(target.types[name])}) AS s{n}" for n, name in enumerate(names))
    source = f"SELECT {columns} FROM VALUES\n    {lines}\n  AS v({', '.join(f's{n}' for n in range(width))})"
    keys = list(target.columns.values())[: target.keys]
    on = " AND ".join(f"t.{_quote_path(path)} <=> s.s{n}" for n, path in enumerate(keys))
    return f"MERGE INTO {target.name} AS t USING (\n  {source}\n) AS s ON {on}"


def _list_clauses(target: _Target) -> str:
    """Return the clauses that update a row with the key and insert one without it."""
    values = {path: f"s.s{n}" for n, path in enumerate(target.columns.values())}
    assigned = list(values.items())[target.keys :]
    update = f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{_quote_path(path)} = {value}' for path, value in assigned)}"
    if not target.can_insert:
        return update
    inserts = _group_structs({**values, **target.computed})
    columns, texts = ", ".join(map(spark_identifier, inserts)), ", ".join(inserts.values())
    return f"{update}\nWHEN NOT MATCHED THEN INSERT ({columns}) VALUES ({texts})"


def _group_structs(values: Mapping[str, str]) -> dict[str, str]:
    """Return the value of each column; fields of one column become a struct."""
    fields: dict[str, dict[str, str]] = {}
    for path, value in values.items():
        head, _, rest = path.partition(".")
        fields.setdefault(head, {})[rest] = value
    return {
        head: parts.get("") or f"named_struct({', '.join(f'{spark_literal(k)}, {v}' for k, v in parts.items())})"
        for head, parts in fields.items()
    }


def _quote_path(path: str) -> str:
    return ".".join(map(spark_identifier, path.split(".")))


def _to_spark_type(kind: str) -> str:
    """Translate a type of DuckDB."""
    return exp.DataType.build(kind, dialect="duckdb").sql(dialect="spark")


def _read_position(lake: PipelineLake, table: JobTable) -> str:
    """Read the position that a batch job has recorded, which the corrected table keeps."""
    job = _get_job(lake)
    position = find_job_position(job, lake.settings).position
    if not isinstance(position, Position) or format_topic_offsets(position.topics, position.upto) != table.position:
        msg = f"Table of the batch job, `{describe_job_table(job.table)}`: expected it to stay as it is, it has changed"
        raise LakeError(msg + " while it was compared.\nHint: draft the repair again.")
    recorded = {name: value for name, value in position.to_json().items() if name != "table"}
    return json.dumps(recorded, separators=(",", ":"))
