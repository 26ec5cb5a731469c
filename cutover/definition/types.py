"""Types of a pipeline's columns and measures, known without an engine: the whitelist is typed."""

from collections.abc import Mapping
from functools import lru_cache

from cutover.definition.expressions import Expression, compile_expression
from cutover.definition.measures import Measure
from cutover.definition.pipeline import Pipeline, Topic
from cutover.definition.schema import canonical_type, fields


def schema_types(topic: Topic) -> dict[str, str]:
    """Return name to type of the schema's columns."""
    return {field.name: field.type for field in fields(topic)}


def looked_up(pipeline: Pipeline) -> dict[str, str]:
    """Return name to type of the columns that rows take from dimensions."""
    taken = (lookup.columns.items() for lookup in pipeline.lookups.values())
    return {name: canonical_type(kind) for columns in taken for name, kind in columns}


def row_types(pipeline: Pipeline) -> dict[str, str]:
    """Return name to type of what `where` and `derive` see: the schema's columns, then those from dimensions."""
    return schema_types(pipeline.source) | looked_up(pipeline)


def derived(pipeline: Pipeline) -> dict[str, Expression]:
    """Return the compiled derived columns; they see the row's columns only."""
    return {
        name: compile_expression(text, row_types(pipeline), of=f"derive.{name}")
        for name, text in pipeline.derive.items()
    }


def column_types(pipeline: Pipeline) -> dict[str, str]:
    """Return name to Spark type of the schema's, the looked-up and the derived columns, in this order."""
    return row_types(pipeline) | {name: item.type for name, item in derived(pipeline).items()}


def measured(pipeline: Pipeline) -> Mapping[str, Expression | None]:
    """Return the compiled expression of each measure over schema and derived columns; None where it has none."""
    types = column_types(pipeline)
    return {name: _measured(name, measure, tuple(types.items())) for name, measure in pipeline.measures.items()}


@lru_cache(maxsize=1024)
def _measured(name: str, measure: Measure, types: tuple[tuple[str, str], ...]) -> Expression | None:
    text = measure.expression
    return None if text is None else compile_expression(text, dict(types), of=f"measures.{name}")


def measure_type(pipeline: Pipeline, name: str) -> str | None:
    """Return the type of what a measure looks at; None where it looks at nothing (a count)."""
    expression = measured(pipeline)[name]
    return None if expression is None else expression.type
