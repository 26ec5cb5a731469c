"""Types of a pipeline's columns and measures, known without an engine: the whitelist is typed."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from cutover.definition.expressions.compiler import Expression, compile_expression
from cutover.definition.measures import doubles
from cutover.definition.measures.kinds import Avg, Measure, Sum
from cutover.definition.measures.spread import Variance
from cutover.definition.model.joins import Join, SelfJoin
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.schema import canonical_type, fields
from cutover.definition.model.topic import Topic


def schema_types(topic: Topic) -> dict[str, str]:
    """Column name to type, in the order of the schema."""
    return {field.name: field.type for field in fields(topic)}


def lookup_types(pipeline: Pipeline) -> dict[str, str]:
    """Return name to type of the columns that rows take from dimensions."""
    taken = (lookup.columns.items() for lookup in pipeline.lookups.values())
    return {name: canonical_type(kind) for columns in taken for name, kind in columns}


def row_types(pipeline: Pipeline) -> dict[str, str]:
    """Return name to type of what `where` and `derive` see: the schema's columns, then those from dimensions."""
    return schema_types(pipeline.source) | lookup_types(pipeline)


def compile_derived(pipeline: Pipeline) -> dict[str, Expression]:
    """Return the compiled derived columns; they see the row's columns only."""
    return {
        name: compile_expression(text, row_types(pipeline), of=f"derive.{name}")
        for name, text in pipeline.derive.items()
    }


def column_types(pipeline: Pipeline) -> dict[str, str]:
    """Return name to Spark type of the schema's, the looked-up and the derived columns, in this order.

    Of a join of two topics those of the right follow, under its prefix.
    """
    return own_types(pipeline) | (right_types(pipeline) if isinstance(pipeline.join, Join) else {})


def own_types(pipeline: Pipeline) -> dict[str, str]:
    """Return the columns of a row of the source: its schema's, looked-up ones and the derived ones."""
    return row_types(pipeline) | {name: item.type for name, item in compile_derived(pipeline).items()}


def right_of(pipeline: Pipeline) -> Pipeline:
    """Return the right side of a join as a pipeline of its own, without measures; of a self join both sides' rows."""
    join = pipeline.join
    if isinstance(join, Join):
        key = tuple(join.on.get(name, name) for name in pipeline.key)  # `join_checks` refuses another key
        return replace(
            pipeline,
            source=join.right,
            where=join.where,
            lookups={},
            derive=join.derive,
            key=key,
            join=None,
            measures={},
        )
    return left_of(pipeline)


def left_of(pipeline: Pipeline) -> Pipeline:
    """Return the left side of a join as a pipeline of its own, without measures."""
    return replace(pipeline, join=None, measures={})


def right_types(pipeline: Pipeline) -> dict[str, str]:
    """Return the right side's columns as pairs show them: under the join's prefix."""
    prefix = pipeline.join.prefix if pipeline.join is not None else ""
    return {f"{prefix}{name}": kind for name, kind in own_types(right_of(pipeline)).items()}


def pair_types(pipeline: Pipeline) -> dict[str, str]:
    """Return name to type of what measures look at: columns of a row, or of a pair where there is a join."""
    return own_types(pipeline) | (right_types(pipeline) if pipeline.join is not None else {})


def conditions(pipeline: Pipeline) -> dict[str, Expression]:
    """Return the compiled conditions of a self join's sides, `join.left` and `join.right`; none of anything else."""
    join = pipeline.join
    if not isinstance(join, SelfJoin):
        return {}
    sides = {"join.left": join.left, "join.right": join.right}
    return {name: compile_expression(text, own_types(pipeline), of=name) for name, text in sides.items()}


def compile_measured(pipeline: Pipeline) -> Mapping[str, Expression | None]:
    """Return the compiled expression of each measure over the columns it looks at; None where it has none."""
    types = pair_types(pipeline)
    return {name: _compile_measure(name, measure, tuple(types.items())) for name, measure in pipeline.measures.items()}


@lru_cache(maxsize=1024)
def _compile_measure(name: str, measure: Measure, types: tuple[tuple[str, str], ...]) -> Expression | None:
    text = measure.expression
    return None if text is None else compile_expression(text, dict(types), of=f"measures.{name}", limit=_limit(measure))


def _limit(measure: Measure) -> float | None:
    """Return what doubles must be smaller than in magnitude, to be added up exactly; None: finite is enough."""
    if isinstance(measure, Variance):
        return doubles.SQUARED
    return doubles.SUMMED if isinstance(measure, Sum | Avg) else None


def measure_type(pipeline: Pipeline, name: str) -> str | None:
    """Return the type of what a measure looks at; None where it looks at nothing (a count)."""
    expression = compile_measured(pipeline)[name]
    return None if expression is None else expression.type
