"""Table of a followed job against the follower's epochs: whether the job does what the definition says.

The table is read at the version that contains the batch of the cut and no later one, so both sides have read the same
records and dropped them by the same watermarks. Only windows that the comparison itself covers are compared.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Iterator, Mapping

import duckdb

from cutover.definition.model.spark_stream import WINDOW_START, SparkStream
from cutover.definition.windows.sliding import SlidingWindows
from cutover.engine import queries
from cutover.engine.queries import fetch_number, fetch_row, query_table
from cutover.errors import LakeError
from cutover.lake.journal_rows import FollowedBatch
from cutover.lake.tables import delta
from cutover.pipeline_lake import PipelineLake
from cutover.positions import followed_job
from cutover.quoting import identifier, literal
from cutover.reconcile.comparison.column_types import is_alike, is_float_column, is_time
from cutover.reconcile.comparison.layout import FLOAT_RELATIVE, Value
from cutover.reconcile.comparison.shared_tables import stage
from cutover.reconcile.comparison.sides import Sides
from cutover.reconcile.preconditions.seal import SealError, SealEvidence
from cutover.reconcile.result.codec import scalar
from cutover.reconcile.result.parts import JobCell, JobTable
from cutover.reconcile.result.seal import SealBreach

CELLS_AT_MOST = 100
NOISE = 1e-12
"""Distance of two doubles near 0 that are equal, relative to the largest value of the measure."""

_RAW, _ROWS, _APART = "job_table", "job_rows", "job_apart"


def compare_job_table(lake: PipelineLake, evidence: SealEvidence, sides: Sides) -> JobTable | None:
    """Compare the table of a pipeline's job at the cut; None if its streaming path is Cutover's own.

    Raises:
        SealError: The table cannot be compared: what it contains is unknown, or it cannot be read.
    """
    stream = lake.pipeline.stream
    if stream is None:
        return None
    batch = _find_batch(lake, evidence)
    connection = sides.connection
    try:
        table = delta.open_table(stream.table.path, batch.table_version)
        delta.bind(connection, _RAW, table)
        _create_rows(lake, stream, sides)
        _create_apart(lake, sides)
    except LakeError as error:
        raise _reject(lake, f"expected version {batch.table_version}, got: {error.text}") from error
    except duckdb.Error as error:
        raise _reject(lake, f"expected rows that can be compared, got: {queries.describe_error(error)}") from error
    return _measure(lake, batch, sides)


def _find_batch(lake: PipelineLake, evidence: SealEvidence) -> FollowedBatch:
    number = evidence.records[-1].job_batch if evidence.records else None
    batch = next((row for row in followed_job.read_archive(lake) if row.number == number), None)
    if batch is None:
        raise _reject(lake, f"expected the archived batch {number} of the cut, found none")
    if batch.table_version is None:
        raise _reject(lake, f"expected a version that contains batch {batch.number}, the job had written none")
    return batch


def _create_rows(lake: PipelineLake, stream: SparkStream, sides: Sides) -> None:
    """Create the table of the job's rows of compared windows, with the names of the definition."""
    connection, pipeline = sides.connection, lake.pipeline
    types = _list_types(sides, _RAW)
    names = dict(stream.columns)
    if WINDOW_START not in names and WINDOW_START not in types and "window" in types:
        names[WINDOW_START] = "window.start"
    columns = {
        name: _find_column(lake, names.get(name, name), types)
        for name in (WINDOW_START, *pipeline.key, *pipeline.measures)
    }
    selected = ", ".join(f"{column} AS {identifier(name)}" for name, column in columns.items())
    connection.execute(f"CREATE TEMP VIEW job_named AS SELECT {selected} FROM {_RAW}")
    _check_types(lake, _list_types(sides, "job_named"), _list_types(sides, stage(0)))
    size = pipeline.window.size if isinstance(pipeline.window, SlidingWindows) else 0
    start = f"CAST({WINDOW_START} AS TIMESTAMPTZ)"
    rows = (
        f"SELECT * REPLACE ({start} AS {WINDOW_START}), make_timestamptz(epoch_us({start}) + {size}) AS window_end"
        " FROM job_named"
    )
    connection.execute(f"CREATE TEMP TABLE {_ROWS} AS SELECT * FROM ({rows}) WHERE {sides.is_compared}")


def _find_column(lake: PipelineLake, path: str, types: Mapping[str, str]) -> str:
    """Return SQL of a column, or of a field in a struct."""
    if path in types:
        return identifier(path)
    head, *fields = path.split(".")
    if head not in types:
        raise _reject(
            lake, f"expected a column `{path}`, it has {', '.join(types)}. `stream.columns` names another one"
        )
    return "".join([identifier(head), *(f"[{literal(field)}]" for field in fields)])


def _check_types(lake: PipelineLake, types: Mapping[str, str], expected_types: Mapping[str, str]) -> None:
    """Reject columns whose values could only be compared after a conversion that may lose digits or times."""
    for name, kind in types.items():
        expected = expected_types[name]
        is_float_key = name in lake.pipeline.key and is_float_column(kind)
        if is_float_key or not (is_alike(kind, expected) or (is_time(kind) and is_time(expected))):
            raise _reject(lake, f"column `{name}`: expected {expected}, got {kind}")


def _create_apart(lake: PipelineLake, sides: Sides) -> None:
    """Create the table of (window, key) rows in which both differ, with the values of both."""
    keys = (WINDOW_START, *lake.pipeline.key)
    same_key = " AND ".join(f"e.{identifier(name)} IS NOT DISTINCT FROM j.{identifier(name)}" for name in keys)
    selected = [f"coalesce(e.{identifier(name)}, j.{identifier(name)}) AS {identifier(name)}" for name in keys]
    conditions = []
    for name in lake.pipeline.measures:
        column = identifier(name)
        condition = _differs_sql(sides, name)
        conditions.append(condition)
        selected += [f"e.{column} AS {identifier(f'e_{name}')}", f"j.{column} AS {identifier(f'j_{name}')}"]
        selected.append(f"({condition}) AS {identifier(f'd_{name}')}")
    partition, values = (", ".join(map(identifier, names)) for names in (keys, lake.pipeline.measures))
    copies = f"row_number() OVER (PARTITION BY {partition} ORDER BY {values}) AS __copy"
    sides.connection.execute(f"""
        CREATE TEMP TABLE {_APART} AS
        SELECT {", ".join(selected)}, e.__copy IS NULL AS is_extra, j.__copy IS NULL AS is_missing
        FROM (SELECT *, {copies} FROM {stage(0)}) e FULL JOIN (SELECT *, {copies} FROM {_ROWS}) j
        ON {same_key} AND e.__copy = j.__copy
        WHERE e.__copy IS NULL OR j.__copy IS NULL OR {" OR ".join(conditions)}
    """)


def _differs_sql(sides: Sides, name: str) -> str:
    """Return SQL that is true where a measure differs: sums of floats depend on the order in which Spark adds them."""
    column = identifier(name)
    is_float = any(is_float_column(_list_types(sides, table)[name]) for table in (_ROWS, stage(0)))
    if is_float:
        value = Value(name=name, exact=False, relative=FLOAT_RELATIVE, absolute=_find_noise(sides, name))
    else:
        value = Value(name=name)
    kind = "::DOUBLE" if is_float else ""
    return value.differs(f"e.{column}{kind}", f"j.{column}{kind}")


def _find_noise(sides: Sides, name: str) -> float:
    """Find the distance from 0 that is noise: doubles that cancel leave a rest of the size of their last digits."""
    column = f"abs({identifier(name)}::DOUBLE)"
    tables = " UNION ALL ".join(f"SELECT {column} AS size FROM {table}" for table in (_ROWS, stage(0)))
    query = f"SELECT coalesce(max(size) FILTER (isfinite(size)), 0) FROM ({tables})"
    (largest,) = fetch_row(sides.connection, query)
    return float(largest) * NOISE


def _list_types(sides: Sides, table: str) -> dict[str, str]:
    return {str(row[0]): str(row[1]) for row in sides.connection.execute(f"DESCRIBE {table}").fetchall()}


def _measure(lake: PipelineLake, batch: FollowedBatch, sides: Sides) -> JobTable:
    connection = sides.connection
    expected_rows = fetch_number(connection, f"SELECT count(*) FROM {stage(0)}")
    different, extra = fetch_row(connection, f"SELECT count(*), count(*) FILTER (is_extra) FROM {_APART}")
    return JobTable(
        batch=batch.number,
        version=batch.table_version,
        rows=expected_rows + int(extra),
        different=int(different),
        foreign_versions=_list_foreign(lake, batch.number),
        cells=tuple(_list_cells(lake, sides)),
    )


def _list_foreign(lake: PipelineLake, number: int) -> tuple[str, ...]:
    archived = followed_job.read_archive(lake)
    return tuple(row.foreign_versions for row in archived if row.number <= number and row.foreign_versions)


def _list_cells(lake: PipelineLake, sides: Sides) -> Iterator[JobCell]:
    pipeline = lake.pipeline
    keys = (WINDOW_START, *pipeline.key)
    order = ", ".join(map(identifier, keys))
    query = f"SELECT * FROM {_APART} ORDER BY {order}, is_extra LIMIT {CELLS_AT_MOST}"
    for row in query_table(sides.connection, query).to_pylist():
        is_changed = not (row["is_extra"] or row["is_missing"])
        for name in pipeline.measures:
            if not is_changed or row[f"d_{name}"]:
                yield JobCell(
                    window_start=str(scalar(row[WINDOW_START])),
                    key={column: scalar(row[column]) for column in pipeline.key},
                    measure=name,
                    kind="changed" if is_changed else "extra" if row["is_extra"] else "missing",
                    job=scalar(row[f"j_{name}"]),
                    expected=scalar(row[f"e_{name}"]),
                )


def _reject(lake: PipelineLake, text: str) -> SealError:
    stream = lake.pipeline.stream
    place = "" if stream is None else stream.table.path
    breach = SealBreach(code="job_table", message=f"Table of the job, `{place}`: {text}.", runbook="NotComparable")
    return SealError(breach)
