"""What a join keeps of each side: a bag of rows a window and key, only the columns that measures read, with counts.

Bags add up, whatever the split into epochs. Pairs are built from them where a result is finished
(`cutover.records.join_pairs`), so a late row of either side finds every partner that has come.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import sqlglot
from sqlglot import exp

from cutover.definition.measures.states import StateColumn
from cutover.definition.measures.value_counts import count_values_sql

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
    types: Mapping[str, str]  # columns that measures read, as pairs show them, to their types; never the key's
    sources: Mapping[str, str]  # the same columns to Spark SQL over a parsed row
    here: str  # Spark SQL: a parsed row is on this side

    @property
    def state(self) -> StateColumn:
        """The bag as a state column, `__left` or `__right`: a list of (value, count), a value being a row's columns."""
        fields = ",".join(f"{name}:{kind}" for name, kind in self.types.items()) or f"{NOTHING}:boolean"
        row = ", ".join(f"'{name}', {source}" for name, source in self.sources.items()) or f"'{NOTHING}', true"
        rows = f"collect_list(IF({self.here}, named_struct('value', named_struct({row}), 'count', 1L), NULL))"
        values_sql = count_values_sql("sort_array(transform(rows, e -> e.value))")
        # Most bags of an epoch are short: counting their rows costs more than all else, and the fold does it too.
        create = f"get(transform(array({rows}), rows -> IF(size(rows) <= {SHORT}, rows, {values_sql})), 0)"
        kind = f"array<struct<value:struct<{fields}>,count:bigint>>"
        return StateColumn(column=f"__{self.name}", type=kind, create=create, merge="counts")


def find_columns(text: str) -> frozenset[str]:
    """Return the names of the columns in an expression, in lower case."""
    trees = sqlglot.parse(text, read="spark")
    return frozenset(node.name.lower() for tree in trees if tree is not None for node in tree.find_all(exp.Column))
