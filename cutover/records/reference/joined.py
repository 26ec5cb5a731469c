"""Joins in plain Python: the rows of each side as they are, every pair of them, and each measure over the pairs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from cutover.definition.compile.bags import Side
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.measures import doubles
from cutover.definition.measures.kinds import Avg, Count, Max, Measure, Min
from cutover.definition.model.joins import RIGHT_PARTITION_BASE, SelfJoin
from cutover.definition.model.pipeline import Pipeline, make_left_side, make_right_side
from cutover.definition.model.topic import Topic
from cutover.records.reference.evaluate import Evaluated, evaluate
from cutover.records.reference.further import Place
from cutover.records.reference.measures import EXACT, finish

Counted = tuple[Mapping[str, Any], Place]
Key = tuple[Any, ...]
CONDITIONS = ("join.left", "join.right")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    columns: Mapping[str, Any]  # the key's and both sides'; null of a side that is not there
    weight: int  # how many pairs of equal columns there are


def questions_of(pipeline: Pipeline) -> tuple[Pipeline, Pipeline]:
    """Return what to evaluate on records of the left and of the right topic; where there is no join the same twice.

    Of a join the `measures` are the columns that pairs need, and of a self join both conditions.
    """
    if pipeline.join is None:
        return pipeline, pipeline
    left, right = compile_pipeline(pipeline).sides
    if isinstance(pipeline.join, SelfJoin):
        conditions = zip(CONDITIONS, (pipeline.join.left, pipeline.join.right), strict=True)
        both = replace(
            make_left_side(pipeline), measures=_make_max_measures({**left.sources, **right.sources, **dict(conditions)})
        )
        return both, both
    prefix = pipeline.join.prefix
    own = {name: f"`{name.removeprefix(prefix)}`" for name in right.sources}
    return (
        replace(make_left_side(pipeline), measures=_make_max_measures(left.sources)),
        replace(make_right_side(pipeline), measures=_make_max_measures(own)),
    )


def _make_max_measures(texts: Mapping[str, str]) -> dict[str, Measure]:
    return {name: Max(text) for name, text in texts.items()}


def on_a_side(pipeline: Pipeline, found: Evaluated) -> Evaluated:
    """Return what the expressions say of a record; one that is on no side of a self join does not pass."""
    if not isinstance(pipeline.join, SelfJoin):
        return found
    return replace(found, passes=found.passes and any(found.values[name] for name in CONDITIONS))


def results(pipeline: Pipeline, groups: Mapping[Any, tuple[Key, Sequence[Counted]]]) -> dict[Any, dict[str, Any]]:
    """Return each group's finished measures, from its key and its records."""
    made = [(group, pair) for group, (key, counted) in groups.items() for pair in _pairs(pipeline, key, counted)]
    found: dict[Any, dict[str, Any]] = {group: {} for group in groups}
    for name, measure in pipeline.measures.items():
        values: dict[Any, list[tuple[Any, int]]] = {group: [] for group in groups}
        for (group, pair), value in zip(made, _values(pipeline, name, [pair for _, pair in made]), strict=True):
            values[group].append((value, pair.weight))
        for group, weighted in values.items():
            found[group][name] = finish(measure, _value_of(measure, weighted))
    return found


def _pairs(pipeline: Pipeline, key: Key, counted: Sequence[Counted]) -> Iterator[_Pair]:
    both = [_bag(pipeline, side, counted) for side in compile_pipeline(pipeline).sides]
    own = dict(zip(pipeline.key, key, strict=True))
    for left, right in _pair_bags(pipeline, None in key, *both):
        for a, of_a in left.items():
            for b, of_b in right.items():
                yield _Pair(columns={**own, **dict(a), **dict(b)}, weight=of_a * of_b)


def _pair_bags(pipeline: Pipeline, is_null: bool, left: Counter[Any], right: Counter[Any]) -> list[tuple[Any, Any]]:
    """Return the bags whose rows all meet one another; a bag of one empty row stands for a side that is not there."""
    how = pipeline.join.how if pipeline.join is not None else "inner"
    nobody = Counter([()])
    if left and right and not is_null:
        return [(left, right)]
    kept = [(left, nobody)] if how in {"left", "full"} else []
    return [*kept, *([(nobody, right)] if how == "full" else [])]


def _bag(pipeline: Pipeline, side: Side, counted: Sequence[Counted]) -> Counter[Any]:
    here = [values for values, place in counted if _is_here(pipeline, side, values, place)]
    return Counter(tuple((name, values[name]) for name in side.types) for values in here)


def _is_here(pipeline: Pipeline, side: Side, values: Mapping[str, Any], place: Place) -> bool:
    if isinstance(pipeline.join, SelfJoin):
        return values[f"join.{side.name}"] is True
    return (place[1] >= RIGHT_PARTITION_BASE) == (side.name == "right")


def _values(pipeline: Pipeline, name: str, pairs: Sequence[_Pair]) -> list[Any]:
    """Return what a measure looks at in each pair; None where its expression fails."""
    measure = pipeline.measures[name]
    if isinstance(measure, Count):
        return [1] * len(pairs)
    types = compile_pipeline(pipeline).pair_types
    schema = ", ".join(f"`{column}` {kind}" for column, kind in types.items())
    shape = Topic(name="pairs", schema=schema, event_time="")
    alone = replace(make_left_side(pipeline), source=shape, where=None, derive={}, key=(), measures={name: measure})
    found = evaluate(alone, [dict.fromkeys(types) | dict(pair.columns) for pair in pairs])
    return [None if item.failed else item.values[name] for item in found]


def _value_of(measure: Measure, weighted: Sequence[tuple[Any, int]]) -> Any:
    """Return one measure of values with their weights, before it is finished; nulls are left out."""
    given = [(value, weight) for value, weight in weighted if value is not None]
    number = sum(weight for _, weight in given)
    if isinstance(measure, Count):
        return number
    if isinstance(measure, Avg):
        return (_sum(given), number)
    if isinstance(measure, Min):
        values = [value for value, _ in given]
        return None if not values else max(values) if isinstance(measure, Max) else min(values)
    return _sum(given) if given else None


def _sum(given: Sequence[tuple[Any, int]]) -> Any:
    if given and isinstance(given[0][0], float):
        return doubles.from_units(sum(doubles.to_units(value) * weight for value, weight in given))
    total = Decimal(0)
    for value, weight in given:
        total = EXACT.add(total, EXACT.multiply(Decimal(value), Decimal(weight)))
    return total
