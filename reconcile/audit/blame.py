"""Columns in which two answers differ, with the expression of the definition that each comes from."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or ours

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb

from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.model.pipeline import Pipeline
from cutover.quoting import identifier
from cutover.reconcile.comparison.layout import Value, agreement_of, make_default_comparison

FIRST = "answer_0"
_ROWS = "windows and keys"
_NUMBER = re.compile(r"DOUBLE|FLOAT|U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DECIMAL\(.*\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceSize:
    """Size of the difference between two answers in a column, over the rows that differ."""

    largest: float  # absolute
    relative: float  # the largest difference by the larger magnitude
    half: float  # of the rows differ by at most so much; absolute
    p95: float
    p99: float
    volume: float  # sum of all, without signs


@dataclass(frozen=True, slots=True, kw_only=True)
class BlamedMeasure:
    """A measure, or the windows and keys themselves, that another replay gave otherwise."""

    column: str  # a result, or a state of it
    expression: str  # of the definition
    rows: int  # (window, key)
    within_tolerance: bool  # of doubles: the last digits of a sum depend on the order of its records
    example: str  # window, key and both values
    size: DifferenceSize | None = None  # None: no number, or none in any of the rows on both sides


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sized:
    """SQL over both sides of a numeric column: how far they are apart."""

    first_sql: str
    second_sql: str

    @property
    def aggregates(self) -> str:
        """Return the aggregates of `DifferenceSize`, in order; all null where no row has two finite numbers."""
        first, second = (f"TRY_CAST({side} AS DOUBLE)" for side in (self.first_sql, self.second_sql))
        apart = f"CASE WHEN isfinite({first}) AND isfinite({second}) THEN abs({first} - {second}) END"
        relative = f"{apart} / nullif(greatest(abs({first}), abs({second})), 0)"
        percentiles = ", ".join(f"quantile_cont({apart}, {share})" for share in (0.5, 0.95, 0.99))
        return f"max({apart}), max({relative}), {percentiles}, sum({apart} ORDER BY {apart})"


def find(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, other: str) -> tuple[BlamedMeasure, ...]:
    """Return every column in which a table differs from `answer_0`.

    Args:
        connection: Holds both: what `fold.finish_sql` returns.
        pipeline: The definition.
        other: Name of the other table.
    """
    keys = [identifier(name) for name in ("window_start", *pipeline.key)]
    on = " AND ".join(f"a.{key} IS NOT DISTINCT FROM b.{key}" for key in keys)
    joined = f"{FIRST} a FULL JOIN {other} b ON {on}"
    place = ", ".join(f"coalesce(a.{key}, b.{key})" for key in keys)
    return (*_rows(connection, pipeline, joined, place), *_measures(connection, pipeline, joined, place))


def _rows(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, joined: str, place: str
) -> Iterator[BlamedMeasure]:
    alone = "a.window_start IS NULL OR b.window_start IS NULL"
    query = f"SELECT count(*), min(({place}, a._n, b._n)) FROM {joined} WHERE {alone}"
    (rows, example) = connection.execute(query).fetchall()[0]
    if rows:
        yield BlamedMeasure(
            column=_ROWS,
            expression=_of_rows(pipeline),
            rows=int(rows),
            within_tolerance=False,
            example=_format_example(example),
        )


def _measures(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, joined: str, place: str
) -> Iterator[BlamedMeasure]:
    types = {str(row[0]): str(row[1]) for row in connection.execute(f"DESCRIBE {FIRST}").fetchall()}
    for name, expression in _columns(pipeline).items():
        left, right = (f"{side}.{identifier(name)}" for side in "ab")
        value = agreement_of(pipeline, make_default_comparison(name, types[name]), same_definition=True)
        at_all, beyond = Value(name=name).differs(left, right), value.differs(left, right)
        both = "a.window_start IS NOT NULL AND b.window_start IS NOT NULL"
        sized = (
            _Sized(first_sql=left, second_sql=right).aggregates
            if _NUMBER.fullmatch(types[name])
            else ", ".join(["NULL"] * 6)
        )
        query = f"""
            SELECT count(*), count(*) FILTER ({beyond}), min_by(({place}, {left}, {right}), (NOT {beyond}, {place})),
                {sized}
            FROM {joined} WHERE {both} AND {at_all}
        """
        rows, far, example, *sizes = connection.execute(query).fetchall()[0]
        if rows:
            yield BlamedMeasure(
                column=name,
                expression=expression,
                rows=int(rows),
                within_tolerance=not far,
                example=_format_example(example),
                size=_make_size(sizes),
            )


def _make_size(figures: Sequence[float | None]) -> DifferenceSize | None:
    largest, relative, half, p95, p99, volume = (float(value or 0.0) for value in figures)
    if figures[0] is None:
        return None
    return DifferenceSize(largest=largest, relative=relative, half=half, p95=p95, p99=p99, volume=volume)


def _columns(pipeline: Pipeline) -> dict[str, str]:
    """Return results and states with the expression that they come from: a state shows what a result may hide."""
    expressions = {name: str(measure.expression) for name, measure in pipeline.measures.items()}
    if pipeline.window.merges:  # it follows from the rows, as they do
        expressions["window_end"] = _of_rows(pipeline)
    for state in compile_pipeline(pipeline).states:
        expressions.setdefault(state.column, expressions.get(state.column.rpartition("__")[0], state.create))
    return expressions


def _of_rows(pipeline: Pipeline) -> str:
    """Return what says which windows and keys there are."""
    derived = [text for name, text in pipeline.derive.items() if name in pipeline.key]
    filters = [] if pipeline.where is None else [pipeline.where]
    return "; ".join([*filters, *derived, ", ".join(pipeline.key)])


def _format_example(example: tuple[object, ...]) -> str:
    *place, first_value, second_value = example
    return f"{', '.join(map(str, place))}: {first_value} and {second_value}"
