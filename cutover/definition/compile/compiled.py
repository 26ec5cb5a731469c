"""What the runners take from a definition: Spark SQL texts, state columns, key types, and how a result is finished.

Every text here is a value that never raises; `row_failed` says on which rows one of them failed (class `malformed`,
reason `expression`). Columns are in backticks; a plain column stays a plain column.
"""

from collections.abc import Iterable
from dataclasses import replace

from cutover.definition.compile import pairs
from cutover.definition.compile.types import (
    column_types,
    compile_derived,
    compile_measured,
    conditions,
    measure_type,
    row_types,
)
from cutover.definition.expressions.compiler import NEVER, Expression, compile_expression
from cutover.definition.measures.kinds import Count
from cutover.definition.measures.states import Finish, StateColumn
from cutover.definition.model.pipeline import Pipeline


def where(pipeline: Pipeline) -> Expression | None:
    """Return the compiled condition over the schema's and the looked-up columns, None where there is none."""
    if pipeline.where is None:
        return None
    return compile_expression(pipeline.where, row_types(pipeline), of="where")


def derive(pipeline: Pipeline) -> dict[str, str]:
    """Return name to Spark SQL of the derived columns, over the schema's and the looked-up columns."""
    return {name: item.spark for name, item in compile_derived(pipeline).items()}


def passes(pipeline: Pipeline) -> str:
    """Return the Spark SQL condition, never null, that a row passes `where` and is on a side of a self join."""
    condition = where(pipeline)
    own = "true" if condition is None else f"({condition.spark} IS TRUE)"
    sides = " OR ".join(f"{item.spark} IS TRUE" for item in conditions(pipeline).values())
    return f"({own} AND ({sides}))" if sides else own


def row_failed(pipeline: Pipeline) -> str:
    """Return the Spark SQL condition, never null, that an expression of the definition failed on a row.

    Over the schema's and the derived columns; `false` where none can fail. A row that `where` would filter is malformed
    too if an expression fails on it: malformed comes first.
    """
    return _join_by_or(item.spark_failed for item in expressions(pipeline))


def row_failed_duckdb(pipeline: Pipeline) -> str:
    """Return the same condition in DuckDB's SQL."""
    return _join_by_or(item.duckdb_failed for item in expressions(pipeline))


def expressions(pipeline: Pipeline) -> tuple[Expression, ...]:
    """Return every compiled expression over rows: where, derived columns, and measures or the sides of a self join."""
    last = compile_measured(pipeline) if pipeline.join is None else conditions(pipeline)
    found = (where(pipeline), *compile_derived(pipeline).values(), *last.values())
    return tuple(item for item in found if item is not None)


def states(pipeline: Pipeline) -> tuple[StateColumn, ...]:
    """Return all state columns in order; `create` is Spark SQL over the schema's and the derived columns."""
    return _states(pipeline) if pipeline.join is None else pairs.states(pipeline)


def _states(pipeline: Pipeline) -> tuple[StateColumn, ...]:
    found: list[StateColumn] = []
    for name, expression in compile_measured(pipeline).items():
        measure = pipeline.measures[name]
        if expression is None or isinstance(measure, Count):
            found.extend(measure.states(name, None))
        else:
            found.extend(replace(measure, expression=expression.spark).states(name, expression.type))
    return tuple(found)


def finishes(pipeline: Pipeline) -> dict[str, str]:
    """Return each measure's name to its result, in DuckDB's SQL over state columns; of a join over what pairs give."""
    if pipeline.join is not None:
        return {name: name for name in pipeline.measures}
    made = {name: _finish(pipeline, name) for name in pipeline.measures}
    return {name: name if finish is None else finish.sql for name, finish in made.items()}


def result_types(pipeline: Pipeline) -> dict[str, str]:
    """Return each measure's name to the Spark type of its result."""
    columns = {state.column: state.type for state in _states(pipeline)}
    made = {name: _finish(pipeline, name) for name in pipeline.measures}
    return {name: columns[name] if finish is None else finish.type for name, finish in made.items()}


def _finish(pipeline: Pipeline, name: str) -> Finish | None:
    return pipeline.measures[name].finish(name, measure_type(pipeline, name))


def key_types(pipeline: Pipeline) -> dict[str, str]:
    """Return each key column to its Spark type, in the key's order."""
    types = column_types(pipeline)
    return {name: types[name] for name in pipeline.key}


def _join_by_or(conditions: Iterable[str]) -> str:
    there = [text for text in conditions if text != NEVER]
    return "(" + " OR ".join(there) + ")" if there else NEVER
