"""State of a join's sides: per window and key a bag of rows with counts, reduced to the columns that measures read.

Bags merge to the same state for any split into epochs. Pairs are built when a result is computed
(`cutover.records.join_pairs`), so a late row of either side is paired with every partner that has arrived.
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
MAX_PLAIN_ROWS = 16
"""Maximum rows of a bag that an epoch stores without deduplication, each with count 1."""

PLACEHOLDER = "there"
"""The only field of a bag whose rows are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Side of a join."""

    name: Name
    types: Mapping[str, str]  # columns that measures read, by their names in pairs -> types; without the key's
    sources: Mapping[str, str]  # the same columns -> Spark SQL over a parsed row
    condition: str  # Spark SQL: a parsed row is on this side

    @property
    def state(self) -> StateColumn:
        """State column `__left` or `__right`: a list of (value, count), each value a struct of a row's columns."""
        fields = ",".join(f"{name}:{kind}" for name, kind in self.types.items()) or f"{PLACEHOLDER}:boolean"
        row = ", ".join(f"'{name}', {source}" for name, source in self.sources.items()) or f"'{PLACEHOLDER}', true"
        rows = f"collect_list(IF({self.condition}, named_struct('value', named_struct({row}), 'count', 1L), NULL))"
        values_sql = count_values_sql("sort_array(transform(rows, e -> e.value))")
        # Most bags of an epoch are short: deduplicating them would be the largest cost, and the fold deduplicates too.
        create = f"get(transform(array({rows}), rows -> IF(size(rows) <= {MAX_PLAIN_ROWS}, rows, {values_sql})), 0)"
        kind = f"array<struct<value:struct<{fields}>,count:bigint>>"
        return StateColumn(column=f"__{self.name}", type=kind, create=create, merge="counts")


def find_columns(text: str) -> frozenset[str]:
    """List the columns in an expression, in lower case."""
    trees = sqlglot.parse(text, read="spark")
    return frozenset(node.name.lower() for tree in trees if tree is not None for node in tree.find_all(exp.Column))
