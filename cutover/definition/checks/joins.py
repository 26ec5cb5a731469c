"""Checks of a join: conditions, column names, key and measures."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import get_args

from cutover.definition.checks.measures import reject
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.measures.kinds import Avg, Count, Max, Min, Sum
from cutover.definition.model.joins import How, Join, SelfJoin
from cutover.definition.model.pipeline import Pipeline, SameDefinition, make_right_side
from cutover.definition.model.topic import IDENTIFIER, RESERVED_PREFIX, parse_decimal_type

MEASURES = (Count, Sum, Min, Max, Avg)
"""Measures that can be computed from distinct values and their weights; exact, except for doubles."""

SUMMABLE_DIGITS = 19
MAX_NAME_LENGTH = 63


def check(pipeline: Pipeline) -> None:
    """Reject an invalid join; a pipeline without one passes.

    Raises:
        DefinitionError: The message names the first invalid field.
    """
    join = pipeline.join
    if join is None:
        return
    if join.how not in get_args(How):
        reject("join.how", "inner, left or full", repr(join.how))
    _check_sides(pipeline, join)
    _check_prefix(pipeline)
    _check_on(pipeline, join.on if isinstance(join, Join) else {name: name for name in join.on})
    _check_measures(pipeline)
    if not isinstance(pipeline.batch, SameDefinition):
        reject("batch", "SameDefinition() with a join", repr(pipeline.batch), "rows of a join have two sides")
    topics = (pipeline.source, make_right_side(pipeline).source)
    if any(topic.record_id is not None for topic in topics):
        reject("source.record_id", "none with a join", "one", "duplicates are not detected on two sides yet")
    if pipeline.lookups:
        reject("lookups", "none with a join", ", ".join(pipeline.lookups), "join a topic that has the columns")


def _check_sides(pipeline: Pipeline, join: Join | SelfJoin) -> None:
    if isinstance(join, SelfJoin):
        for name, condition in compile_pipeline(pipeline).side_conditions.items():
            if condition.type != "boolean":
                reject(name, "a condition", f"{condition.type}: `{condition.text}`")
        return
    if join.right.name == pipeline.source.name:
        reject("join.right.name", "a topic other than the source's", f"`{join.right.name}`", "SelfJoin joins one topic")
    if join.right.isolation != pipeline.source.isolation:
        reject("join.right.isolation", f"that of the source, {pipeline.source.isolation}", join.right.isolation)
    right = compile_pipeline(pipeline).right
    _ = right.expressions  # compiling rejects invalid expressions
    right_condition = right.where
    if right_condition is not None and right_condition.type != "boolean":
        reject("join.where", "a condition", f"{right_condition.type}: `{right_condition.text}`")


def _check_prefix(pipeline: Pipeline) -> None:
    prefix = pipeline.join.prefix if pipeline.join is not None else ""
    if not IDENTIFIER.match(prefix) or prefix.startswith(RESERVED_PREFIX):
        reject("join.prefix", "letters, digits and `_`, not starting with a digit or `__`", repr(prefix))
    compiled = compile_pipeline(pipeline)
    left_names = {name.lower() for name in compiled.own_types}
    for name in compiled.right_types:
        if name.lower() in left_names:
            hint = "choose another prefix, or rename the column by `derive`"
            reject(
                "join.prefix", "names on the right that differ from those on the left", f"`{name}` on both sides", hint
            )
        if len(name) > MAX_NAME_LENGTH:
            reject("join.prefix", f"names of at most {MAX_NAME_LENGTH} characters", f"`{name}`")


def _check_on(pipeline: Pipeline, on: Mapping[str, str]) -> None:
    if isinstance(getattr(pipeline.join, "on", None), str) or not on:
        reject("join.on", "at least one column that both sides share", repr(getattr(pipeline.join, "on", None)))
    compiled = compile_pipeline(pipeline)
    left_types, right_types = compiled.own_types, compiled.right.own_types
    for left_column, right_column in on.items():
        _check_column("join.on, left side", left_column, left_types)
        _check_column("join.on, right side", right_column, right_types)
        if left_types[left_column] != right_types[right_column]:
            left_text = f"`{left_column}` of type {left_types[left_column]}"
            actual = f"{left_text} and `{right_column}` of type {right_types[right_column]}"
            reject("join.on", "columns of one type", actual, "CAST one of them in `derive`")
    if not isinstance(pipeline.key, str) and sorted(pipeline.key) != sorted(on):
        expected = f"the columns of `join.on`: ({', '.join(repr(name) for name in on)})"
        reject("key", expected, repr(pipeline.key), "both rows of a pair have the same key; derive a column to join on")


def _check_column(field: str, name: str, known_names: Iterable[str]) -> None:
    names = list(known_names)
    if name not in names:
        close = get_close_matches(str(name), names, n=1)
        reject(field, f"a column of {', '.join(names)}", f"`{name}`", f"did you mean `{close[0]}`?" if close else "")


def _check_measures(pipeline: Pipeline) -> None:
    for name, measure in pipeline.measures.items():
        kind = compile_pipeline(pipeline).measured_type(name)
        if not isinstance(measure, MEASURES):
            allowed = ", ".join(item.__name__ for item in MEASURES)
            reject(f"measures.{name}", f"one of {allowed} over the pairs of a join", type(measure).__name__)
        digits = parse_decimal_type(kind or "bigint")
        if isinstance(measure, Sum | Avg) and digits is not None and digits[0] > SUMMABLE_DIGITS:
            hint = "a sum over all pairs could overflow; CAST it"
            reject(f"measures.{name}", f"a decimal of at most {SUMMABLE_DIGITS} digits with a join", str(kind), hint)
