"""Tables of a team's own jobs against what the definition says: the streaming job's against the follower's epochs.

The table is read at the version that contains the batch of the cut and no later one, so both sides have read the same
records and dropped them by the same watermarks. Only windows that the comparison itself covers are compared. Of a table
with a row per record, the rows are grouped by window and key first, with the definition's measures.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import duckdb

from cutover.definition.checks.team_jobs import has_parts_of_sessions, list_row_key, list_row_times
from cutover.definition.compile.fingerprint import job_fingerprints
from cutover.definition.measures.kinds import Count, First, Last, Max, Min, Sum
from cutover.definition.model.pipeline import WINDOW_END, WINDOW_START, Pipeline
from cutover.definition.windows.kinds import SlidingWindows
from cutover.definition.windows.window_fn import EARLIEST, LATEST
from cutover.engine import queries
from cutover.engine.queries import fetch_number, fetch_row, query_table
from cutover.errors import LakeError
from cutover.lake.journal_rows import FollowedBatch
from cutover.lake.tables import delta
from cutover.pipeline_lake import PipelineLake
from cutover.positions import followed_job
from cutover.quoting import identifier, literal
from cutover.reconcile.comparison.column_types import is_alike, is_float_column, is_time
from cutover.reconcile.comparison.digests import PARTS, merge_parts_sql, select_judged_sessions_sql
from cutover.reconcile.comparison.layout import FLOAT_RELATIVE, Value, stage
from cutover.reconcile.comparison.sides import Sides
from cutover.reconcile.preconditions.seal import SealError, SealEvidence
from cutover.reconcile.result.codec import scalar
from cutover.reconcile.result.finding import SealBreach
from cutover.reconcile.result.parts import JobCell, JobLevel, JobSide, JobTable
from cutover.records.fold import select_pairs_sql

CELLS_AT_MOST = 100
SINGLE_RELATIVE = 1e-6
"""Tolerance of a column of 4 bytes (`real`), which holds 7 digits."""

PAIRS = "job_pairs"
"""Relation of the rows of a join, one per pair, as the follower has them."""

NOISE = 1e-12
"""Distance of two doubles near 0 that are equal, relative to the largest value of the measure."""

_ONLY_VALUE = "CASE WHEN min({0}) = max({0}) AND count({0}) = count(*) THEN max({0}) END"
_DECIMAL = re.compile(r"DECIMAL\(\d+,(\d+)\)")
_AGGREGATES: Mapping[type, str] = {
    Count: "count(*)",
    First: _ONLY_VALUE,
    Last: _ONLY_VALUE,
    Max: "max({0})",
    Min: "min({0})",
    Sum: "sum({0})",
}
"""SQL of the measures of a table with a row per record. Which of several rows came first does not show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLink:
    """Table of a job as a relation, with the relation of the rows that the definition says it has."""

    side: JobSide
    place: str  # of the table, without secrets
    columns: Mapping[str, str]  # name in the definition -> the table's column
    expected: str  # relation of the rows that the definition says
    latest_by: str | None = None  # of rows with one window and key, that with the largest value of this column counts
    has_row_per_record: bool = False  # its rows are grouped as the definition groups records
    has_parts: bool = False  # a session may have several rows
    listed: str = "true"  # SQL over `window_start` and the key: the rows whose cells are listed
    is_judged: str = "true"  # SQL over `window_start` and `window_end`: the windows that can be judged
    prefix: str | None = None  # of its relations; None: the side
    is_later: str | None = None  # column of `raw`: the row was written after the state that is compared
    is_earlier: str | None = None  # column of `raw`: its transaction had begun before that of the state

    @property
    def marks(self) -> tuple[str, ...]:
        """Columns of `raw` that the table does not have."""
        return tuple(mark for mark in (self.is_later, self.is_earlier) if mark is not None)

    @property
    def raw(self) -> str:
        """Relation of the table as the job has it, which the caller creates."""
        return f"{self.prefix or self.side}_job_table"

    @property
    def rows(self) -> str:
        """Relation of the job's rows of judged windows, with the names of the definition."""
        return f"{self.prefix or self.side}_job_rows"

    @property
    def judged(self) -> str:
        """Relation of the expected rows of judged windows."""
        return f"{self.prefix or self.side}_job_judged"

    @property
    def later(self) -> str:
        """Relation of windows and keys that have a row which was written after the state that is compared."""
        return f"{self.prefix or self.side}_job_later"

    @property
    def earlier(self) -> str:
        """Relation of windows and keys that have a row of an earlier transaction than that of the state."""
        return f"{self.prefix or self.side}_job_earlier"

    @property
    def apart(self) -> str:
        """Relation of the rows in which both differ."""
        return f"{self.prefix or self.side}_job_apart"

    def list_values(self, pipeline: Pipeline) -> tuple[str, ...]:
        """List the columns that are compared; rows decide where a session ends."""
        return (*((WINDOW_END,) if pipeline.window.merges else ()), *pipeline.measures)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounts:
    """Figures of one compared table."""

    rows: int
    different: int
    missing: int  # of `different`: rows that the table lacks
    later: int  # (window, key) rows that are not among those compared, since they were written later
    values: int
    different_values: int
    divided: int  # sessions with several rows in the job's table
    cells: tuple[JobCell, ...]


def compare_streaming_job(
    lake: PipelineLake, evidence: SealEvidence, sides: Sides, *, listed: str = "true"
) -> JobTable | None:
    """Compare the table of a pipeline's streaming job at the cut; None if its streaming path is Cutover's own.

    Raises:
        SealError: The table cannot be compared: what it contains is unknown, or it cannot be read.
    """
    stream = lake.pipeline.stream
    if stream is None:
        return None
    compared, expected = (lake, stage(0)) if lake.pipeline.join is None else _create_pairs(lake, sides)
    link = JobLink(
        side="streaming",
        place=stream.table.path,
        columns=stream.columns,
        expected=expected,
        latest_by=stream.latest_by,
        has_row_per_record=stream.row_per_record,
        has_parts=has_parts_of_sessions(lake.pipeline, stream),
        listed=listed,
    )
    archived = followed_job.read_archive(lake)
    batch = _find_batch(archived, evidence, link)
    try:
        delta.bind(sides.connection, link.raw, delta.open_table(stream.table.path, batch.table_version))
        counts = compare_link(compared, sides, link)
    except SealError:
        raise
    except LakeError as error:
        raise reject_job_table(link, f"expected version {batch.table_version}, got: {error.text}") from error
    return JobTable(
        side="streaming",
        level=choose_level(counts),
        batch=batch.number,
        fingerprint=job_fingerprints(lake.pipeline)["streaming"],
        version=batch.table_version,
        rows=counts.rows,
        different=counts.different,
        missing=counts.missing,
        values=counts.values,
        different_values=counts.different_values,
        divided=counts.divided,
        foreign_versions=_list_foreign(archived, batch.number),
        cells=counts.cells,
    )


def _create_pairs(lake: PipelineLake, sides: Sides) -> tuple[PipelineLake, str]:
    """Create the rows of a join, one per pair, and return the definition with their key, and their relation."""
    key = list_row_key(lake.pipeline)
    sides.connection.execute(f"CREATE TEMP VIEW {PAIRS} AS {select_pairs_sql(lake.pipeline, stage(0), by=key)}")
    return PipelineLake(lake.settings, replace(lake.pipeline, key=key)), PAIRS


def choose_level(counts: JobCounts, *, not_judged: int = 0) -> JobLevel:
    """Choose what is proven of a table: all rows are reproduced, the cut is exact, or only some rows are judged."""
    if not_judged:
        return "bounded"
    return "sealed by offsets" if counts.different or counts.divided else "reproduced"


def compare_link(lake: PipelineLake, sides: Sides, link: JobLink) -> JobCounts:
    """Compare a table of a job, which is the relation `link.raw`, in the windows that are judged.

    Raises:
        SealError: Its columns or its values cannot be compared.
        LakeError: A file of it cannot be read.
    """
    try:
        _create_rows(lake, link, sides)
        _create_apart(lake, link, sides)
    except duckdb.Error as error:
        raise reject_job_table(
            link, f"expected rows that can be compared, got: {queries.describe_error(error)}"
        ) from error
    return _count(lake, link, sides)


def _find_batch(archived: Sequence[FollowedBatch], evidence: SealEvidence, link: JobLink) -> FollowedBatch:
    number = evidence.records[-1].job_batch if evidence.records else None
    batch = next((row for row in archived if row.number == number), None)
    if batch is None:
        raise reject_job_table(link, f"expected the archived batch {number} of the cut, found none")
    if batch.table_version is None:
        raise reject_job_table(link, f"expected a version that contains batch {batch.number}, the job had written none")
    return batch


def _create_rows(lake: PipelineLake, link: JobLink, sides: Sides) -> None:
    """Create the tables of the job's and of the expected rows of judged windows, with the names of the definition."""
    connection, window = sides.connection, lake.pipeline.window
    select_rows_sql = _select_records_sql if link.has_row_per_record else _select_windows_sql
    named = f"{link.prefix or link.side}_job_named"
    query = select_rows_sql(lake, link, _list_types(sides, link.raw))
    connection.execute(f"CREATE TEMP VIEW {named} AS {query}")
    _check_types(lake, link, _list_types(sides, named), _list_types(sides, link.expected))
    start = f"CAST({WINDOW_START} AS TIMESTAMPTZ)"
    condition = f"({sides.is_compared}) AND ({link.is_judged})"
    if isinstance(window, SlidingWindows):
        end = f"make_timestamptz(epoch_us({start}) + {window.size}) AS {WINDOW_END}"
        rows = f"SELECT * REPLACE ({start} AS {WINDOW_START}), {end} FROM {named}"
    else:
        end = f"CAST({WINDOW_END} AS TIMESTAMPTZ) AS {WINDOW_END}"
        rows = f"SELECT * REPLACE ({start} AS {WINDOW_START}, {end}) FROM {named}"
        merged = merge_parts_sql(lake.pipeline, rows) if link.has_parts else f"SELECT *, 1 AS {PARTS} FROM ({rows})"
        rows, condition = select_judged_sessions_sql(lake.pipeline, merged, sides.is_compared), "true"
    keys = ", ".join(map(identifier, (WINDOW_START, *lake.pipeline.key)))
    for relation, mark in ((link.later, link.is_later), (link.earlier, link.is_earlier)):
        is_marked = "false" if mark is None else identifier(mark)
        marked = f"SELECT DISTINCT {keys} FROM ({rows}) WHERE {condition} AND {is_marked}"
        connection.execute(f"CREATE TEMP TABLE {relation} AS {marked}")
    columns = f"* EXCLUDE ({', '.join(map(identifier, link.marks))})" if link.marks else "*"
    rows = f"SELECT {columns} FROM ({rows}) job WHERE {condition} AND NOT {is_among_sql(lake, link.later, 'job')}"
    connection.execute(f"CREATE TEMP TABLE {link.rows} AS {rows}")
    judged = f"SELECT * FROM {link.expected} e WHERE {link.is_judged} AND NOT {is_among_sql(lake, link.later, 'e')}"
    connection.execute(f"CREATE TEMP VIEW {link.judged} AS {judged}")


def is_among_sql(lake: PipelineLake, relation: str, rows: str) -> str:
    """Return SQL that is true for a row whose window and key a relation has."""
    keys = (WINDOW_START, *lake.pipeline.key)
    same_key = " AND ".join(f"other.{identifier(name)} IS NOT DISTINCT FROM {rows}.{identifier(name)}" for name in keys)
    return f"EXISTS (SELECT 1 FROM {relation} other WHERE {same_key})"


def _select_windows_sql(lake: PipelineLake, link: JobLink, types: Mapping[str, str]) -> str:
    """Return the query of a table with a row per window and key."""
    keys = (WINDOW_START, *lake.pipeline.key)
    columns = {name: _find_column(link, path, types) for name, path in map_columns(lake, link, types).items()}
    selected = [f"{column} AS {identifier(name)}" for name, column in columns.items()]
    selected += map(identifier, link.marks)
    query = f"SELECT {', '.join(selected)} FROM {link.raw}"
    if link.latest_by is None:
        return query
    partition, order = ", ".join(columns[name] for name in keys), _find_column(link, link.latest_by, types)
    # Rows that a repeated batch has written twice are one row.
    newest = f"rank() OVER (PARTITION BY {partition} ORDER BY {order} DESC NULLS LAST) = 1"
    return f"SELECT DISTINCT * FROM ({query} QUALIFY {newest})"


def map_columns(lake: PipelineLake, link: JobLink, columns: Container[str]) -> dict[str, str]:
    """Map the names of keys and values to the columns of a table that has some columns; `a.b` is a field of one."""
    pipeline, names = lake.pipeline, dict(link.columns)
    bounds = {WINDOW_START: "start", WINDOW_END: "end"} if pipeline.window.merges else {WINDOW_START: "start"}
    struct = "session_window" if pipeline.window.merges else "window"
    for name, field in bounds.items():
        if name not in names and name not in columns and struct in columns:
            names[name] = f"{struct}.{field}"
    return {name: names.get(name, name) for name in (WINDOW_START, *pipeline.key, *link.list_values(pipeline))}


def _select_records_sql(lake: PipelineLake, link: JobLink, types: Mapping[str, str]) -> str:
    """Return the query of a table with a row per record: its rows grouped as the definition groups records."""
    pipeline, window = lake.pipeline, lake.pipeline.window
    if not isinstance(window, SlidingWindows):
        raise reject_job_table(link, "expected a fixed window")  # the definition's checks reject any other one
    times, keys = (
        [_find_column(link, link.columns.get(name, name), types) for name in names]
        for names in (list_row_times(pipeline), pipeline.key)
    )
    event = f"least({', '.join(f'epoch_us(CAST({column} AS TIMESTAMPTZ))' for column in times)})"
    since_start = f"(({event} - {window.offset}) % {window.every} + {window.every}) % {window.every}"
    columns = {WINDOW_START: f"make_timestamptz({event} - {since_start})"} | dict(zip(pipeline.key, keys, strict=True))
    for name, measure in pipeline.measures.items():
        column = "" if isinstance(measure, Count) else _find_column(link, link.columns.get(name, name), types)
        columns[name] = _AGGREGATES[type(measure)].format(column)
    selected = ", ".join(f"{column} AS {identifier(name)}" for name, column in columns.items())
    # A record without a readable event time is malformed for us, and belongs to no window.
    return f"SELECT {selected} FROM {link.raw} WHERE {event} >= {EARLIEST} AND {event} < {LATEST} GROUP BY ALL"


def _find_column(link: JobLink, path: str, types: Mapping[str, str]) -> str:
    """Return SQL of a column, or of a field in a struct."""
    if path in types:
        return identifier(path)
    head, *fields = path.split(".")
    if head not in types:
        field = "stream.columns" if link.side == "streaming" else "batch.columns"
        names = [name for name in types if name not in link.marks]
        raise reject_job_table(
            link, f"expected a column `{path}`, it has {', '.join(names)}. `{field}` names another one"
        )
    return "".join([identifier(head), *(f"[{literal(field)}]" for field in fields)])


def _check_types(
    lake: PipelineLake, link: JobLink, types: Mapping[str, str], expected_types: Mapping[str, str]
) -> None:
    """Reject columns whose values could only be compared after a conversion that may lose digits or times."""
    for name, kind in types.items():
        if name in link.marks:
            continue
        expected = expected_types[name]
        is_float_key = name in lake.pipeline.key and is_float_column(kind)
        if is_float_key or not (is_alike(kind, expected) or (is_time(kind) and is_time(expected))):
            raise reject_job_table(link, f"column `{name}`: expected {expected}, got {kind}")


def _create_apart(lake: PipelineLake, link: JobLink, sides: Sides) -> None:
    """Create the table of (window, key) rows in which both differ, with the values of both."""
    keys = (WINDOW_START, *lake.pipeline.key)
    same_key = " AND ".join(f"e.{identifier(name)} IS NOT DISTINCT FROM j.{identifier(name)}" for name in keys)
    selected = [f"coalesce(e.{identifier(name)}, j.{identifier(name)}) AS {identifier(name)}" for name in keys]
    conditions, compared = [], link.list_values(lake.pipeline)
    for name in compared:
        column = identifier(name)
        condition = _differs_sql(sides, link, name)
        conditions.append(condition)
        selected += [f"e.{column} AS {identifier(f'e_{name}')}", f"j.{column} AS {identifier(f'j_{name}')}"]
        selected.append(f"({condition}) AS {identifier(f'd_{name}')}")
    partition, values = (", ".join(map(identifier, names)) for names in (keys, compared))
    copies = f"row_number() OVER (PARTITION BY {partition} ORDER BY {values}) AS __copy"
    sides.connection.execute(f"""
        CREATE TEMP TABLE {link.apart} AS
        SELECT {", ".join(selected)}, e.__copy IS NULL AS is_extra, j.__copy IS NULL AS is_missing
        FROM (SELECT *, {copies} FROM {link.judged}) e FULL JOIN (SELECT *, {copies} FROM {link.rows}) j
        ON {same_key} AND e.__copy = j.__copy
        WHERE e.__copy IS NULL OR j.__copy IS NULL OR {" OR ".join(conditions)}
    """)


def _differs_sql(sides: Sides, link: JobLink, name: str) -> str:
    """Return SQL that is true where a measure differs: sums of floats depend on the order in which Spark adds them."""
    column = identifier(name)
    kinds = [_list_types(sides, table)[name] for table in (link.rows, link.judged)]
    is_float = any(map(is_float_column, kinds))
    if is_float:
        relative = SINGLE_RELATIVE if "FLOAT" in kinds else FLOAT_RELATIVE
        absolute = max(_find_noise(sides, link, name), *map(_find_rounding, kinds))
        value = Value(name=name, exact=False, relative=relative, absolute=absolute)
    else:
        value = Value(name=name)
    kind = "::DOUBLE" if is_float else ""
    return value.differs(f"e.{column}{kind}", f"j.{column}{kind}")


def _find_noise(sides: Sides, link: JobLink, name: str) -> float:
    """Find the distance from 0 that is noise: doubles that cancel leave a rest of the size of their last digits."""
    column = f"abs({identifier(name)}::DOUBLE)"
    tables = " UNION ALL ".join(f"SELECT {column} AS size FROM {table}" for table in (link.rows, link.judged))
    query = f"SELECT coalesce(max(size) FILTER (isfinite(size)), 0) FROM ({tables})"
    (largest,) = fetch_row(sides.connection, query)
    return float(largest) * NOISE


def _find_rounding(kind: str) -> float:
    """Find how far a decimal column is from the double that was rounded to its digits: half of the last one."""
    digits = _DECIMAL.fullmatch(kind)
    return 0.0 if digits is None else 0.5 * 10.0 ** -int(digits[1]) * (1 + FLOAT_RELATIVE)


def _list_types(sides: Sides, table: str) -> dict[str, str]:
    return {str(row[0]): str(row[1]) for row in sides.connection.execute(f"DESCRIBE {table}").fetchall()}


def _count(lake: PipelineLake, link: JobLink, sides: Sides) -> JobCounts:
    """Count rows and values; a row that is missing or extra differs in all of its values."""
    connection, measures = sides.connection, link.list_values(lake.pipeline)
    expected_rows = fetch_number(connection, f"SELECT count(*) FROM {link.judged}")
    differing = " + ".join(f"{identifier(f'd_{name}')}::INTEGER" for name in measures)
    values = f"CASE WHEN is_extra OR is_missing THEN {len(measures)} ELSE {differing} END"
    query = f"SELECT count(*), count(*) FILTER (is_extra), count(*) FILTER (is_missing), coalesce(sum({values}), 0)"
    different, extra, missing, different_values = map(int, fetch_row(connection, f"{query} FROM {link.apart}"))
    parts = f"SELECT count(*) FROM {link.rows} WHERE {PARTS} > 1"
    return JobCounts(
        rows=expected_rows + extra,
        different=different,
        missing=missing,
        later=fetch_number(connection, f"SELECT count(*) FROM {link.later}"),
        values=(expected_rows + extra) * len(measures),
        different_values=different_values,
        divided=fetch_number(connection, parts) if link.has_parts else 0,
        cells=tuple(_list_cells(lake, link, sides)),
    )


def _list_foreign(archived: Sequence[FollowedBatch], number: int) -> tuple[str, ...]:
    return tuple(row.foreign_versions for row in archived if row.number <= number and row.foreign_versions)


def _list_cells(lake: PipelineLake, link: JobLink, sides: Sides) -> Iterator[JobCell]:
    pipeline = lake.pipeline
    keys = (WINDOW_START, *pipeline.key)
    order = ", ".join(map(identifier, keys))
    query = f"SELECT * FROM {link.apart} WHERE {link.listed} ORDER BY {order}, is_extra LIMIT {CELLS_AT_MOST}"
    for row in query_table(sides.connection, query).to_pylist():
        is_changed = not (row["is_extra"] or row["is_missing"])
        for name in link.list_values(pipeline):
            if not is_changed or row[f"d_{name}"]:
                yield JobCell(
                    window_start=str(scalar(row[WINDOW_START])),
                    key={column: scalar(row[column]) for column in pipeline.key},
                    measure=name,
                    kind="changed" if is_changed else "extra" if row["is_extra"] else "missing",
                    job=scalar(row[f"j_{name}"]),
                    expected=scalar(row[f"e_{name}"]),
                )


def reject_job_table(link: JobLink, text: str, code: str | None = None) -> SealError:
    """Return the error of a table that cannot be compared, with the code of its side or another one."""
    message = f"Table of the {link.side} job, `{link.place}`: {text}."
    return SealError(SealBreach(code=code or f"{link.side}_job", message=message, runbook="JobTableUnusable"))
