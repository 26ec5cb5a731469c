"""What a join keeps of each side: a bag of rows a window and key, only the columns that measures look at, with counts.

Bags add up, whatever the split into epochs. Pairs are made of them where a result is finished
(`cutover.records.join_pairs`), so a late row of either side finds every partner that has come.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import sqlglot
from sqlglot import exp

from cutover.definition.compile.types import conditions, own_types, pair_types, right_types
from cutover.definition.measures.counted import run_lengths
from cutover.definition.measures.states import StateColumn
from cutover.definition.model.joins import RIGHT, Join
from cutover.definition.model.pipeline import Pipeline

Name = Literal["left", "right"]
SIDES: tuple[Name, Name] = ("left", "right")
SHORT = 16
"""Rows of a bag that an epoch leaves as they are, each with count 1."""

NOTHING = "there"
"""The one field of a bag whose rows are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a join."""

    name: Name
    types: dict[str, str]  # columns that measures look at, as pairs show them, to their types; never the key's
    sources: dict[str, str]  # the same columns to Spark SQL over a parsed row
    here: str  # Spark SQL: a parsed row is on this side

    @property
    def column(self) -> str:
        """Where a bag of this side is kept in partial aggregates."""
        return f"__{self.name}"


def sides(pipeline: Pipeline) -> tuple[Side, Side]:
    """Left, right; the pipeline has a join."""
    return (_side(pipeline, "left"), _side(pipeline, "right"))


def states(pipeline: Pipeline) -> tuple[StateColumn, ...]:
    """Return the two bags: `__left` and `__right`, each a list of (value, count), a value being a row's columns."""
    return tuple(_state(side) for side in sides(pipeline))


def find_used_sides(pipeline: Pipeline, name: str) -> frozenset[Name]:
    """Return the sides whose columns a measure looks at; a key column belongs to none."""
    columns = _columns(str(pipeline.measures[name].expression or "1"))
    return frozenset(side.name for side in sides(pipeline) if columns & {column.lower() for column in side.types})


def _side(pipeline: Pipeline, name: Name) -> Side:
    wanted = {column for m in pipeline.measures.values() for column in _columns(str(m.expression or "1"))}
    join = pipeline.join
    prefix = join.prefix if join is not None else ""
    known = own_types(pipeline) if name == "left" else right_types(pipeline)
    types = {c: kind for c, kind in known.items() if c.lower() in wanted and c not in pipeline.key}
    plain = name == "left" or isinstance(join, Join)
    sources = {column: f"`{column if plain else column.removeprefix(prefix)}`" for column in types}
    return Side(name=name, types=types, sources=sources, here=_is_on_side_sql(pipeline, name))


def _is_on_side_sql(pipeline: Pipeline, name: Name) -> str:
    if isinstance(pipeline.join, Join):
        return f"_partition {'<' if name == 'left' else '>='} {RIGHT}"
    return f"{conditions(pipeline)[f'join.{name}'].spark} IS TRUE"


def _state(side: Side) -> StateColumn:
    fields = ",".join(f"{name}:{kind}" for name, kind in side.types.items()) or f"{NOTHING}:boolean"
    row = ", ".join(f"'{name}', {source}" for name, source in side.sources.items()) or f"'{NOTHING}', true"
    rows = f"collect_list(IF({side.here}, named_struct('value', named_struct({row}), 'count', 1L), NULL))"
    counted = run_lengths("sort_array(transform(rows, e -> e.value))")
    # Most bags of an epoch are short: counting their rows costs more than all else, and the fold does it anyway.
    create = f"get(transform(array({rows}), rows -> IF(size(rows) <= {SHORT}, rows, {counted})), 0)"
    kind = f"array<struct<value:struct<{fields}>,count:bigint>>"
    return StateColumn(column=side.column, type=kind, create=create, merge="counts")


@lru_cache(maxsize=1024)
def _columns(text: str) -> frozenset[str]:
    """Return the names of the columns in an expression, in lower case."""
    trees = sqlglot.parse(text, read="spark")
    return frozenset(node.name.lower() for tree in trees if tree is not None for node in tree.find_all(exp.Column))


def pair_columns(pipeline: Pipeline) -> dict[str, str]:
    """Return name to type of the columns that a pair has in hand: the key's and those of both bags."""
    kept = {name for side in sides(pipeline) for name in side.types}
    return {name: kind for name, kind in pair_types(pipeline).items() if name in kept or name in pipeline.key}
