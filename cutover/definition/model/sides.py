"""The two sides of a join, each as a pipeline of its own: what the parser and the checks take them for."""

from dataclasses import replace

from cutover.definition.model.joins import Join
from cutover.definition.model.pipeline import Pipeline


def left_of(pipeline: Pipeline) -> Pipeline:
    """Return the left side of a join as a pipeline of its own, without measures."""
    return replace(pipeline, join=None, measures={})


def right_of(pipeline: Pipeline) -> Pipeline:
    """Return the right side of a join as a pipeline of its own, without measures; of a self join both sides' rows."""
    join = pipeline.join
    if not isinstance(join, Join):
        return left_of(pipeline)
    key = tuple(join.on.get(name, name) for name in pipeline.key)  # `checks.joins` refuses another key
    return replace(
        pipeline, source=join.right, where=join.where, lookups={}, derive=join.derive, key=key, join=None, measures={}
    )
