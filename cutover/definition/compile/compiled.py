"""Compiled definition: types, and SQL of each engine, for both paths and the reference.

No SQL text here raises when it is evaluated; `row_failed` is true on rows where one of them failed (class `malformed`,
reason `expression`). Columns are in backticks in Spark's SQL; a plain column stays a plain column. Types are known
without an engine, since the whitelist of expressions is typed.

The state of a join is one bag of rows with counts for each side, window and key, reduced to the columns that measures
read. Bags merge to the same state for any split into epochs. Pairs are built when a result is computed
(`cutover.records.fold`), so a late row of either side is paired with every partner that has arrived.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal

import sqlglot
from sqlglot import exp

from cutover.definition.expressions.compiler import NEVER, Expression, compile_expression
from cutover.definition.measures import doubles
from cutover.definition.measures.doubles import Variance
from cutover.definition.measures.kinds import Avg, Count, Measure, Sum, count_values_sql
from cutover.definition.measures.states import Finish, StateColumn
from cutover.definition.model.joins import RIGHT_PARTITION_BASE, Join, SelfJoin
from cutover.definition.model.pipeline import Pipeline, make_right_side
from cutover.definition.model.topic import list_column_types, normalize_type
from cutover.definition.windows.kinds import SlidingWindows

Name = Literal["left", "right"]
SIDES: tuple[Name, Name] = ("left", "right")
MAX_PLAIN_ROWS = 16
"""Maximum rows of a bag that an epoch stores without deduplication, each with count 1."""

PLACEHOLDER = "there"
"""The only field of a bag whose rows are only counted."""

Types = Mapping[str, str]
"""Column or measure -> Spark type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSide:
    """One side of a join, with its types, sources and condition."""

    name: Name
    types: Mapping[
        str, str
    ]  # columns that measures or the interval read, by their names in pairs -> types; without the key's
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PairInterval:
    """Range of the distance between the two rows of a pair of an interval join; microseconds."""

    left: str  # event times, by their names in pairs
    right: str
    lower: int  # of right - left, both bounds included
    upper: int
    every: int  # a pair belongs to the window in whose first `every` its earlier row is

    def has_pair(self, left: int, right: int, start: int) -> bool:
        """Return whether rows at two times are a pair of the window that starts at `start`."""
        return self.lower <= right - left <= self.upper and min(left, right) < start + self.every


def find_columns(text: str) -> frozenset[str]:
    """List the columns in an expression, in lower case."""
    trees = sqlglot.parse(text, read="spark")
    return frozenset(node.name.lower() for tree in trees if tree is not None for node in tree.find_all(exp.Column))


@lru_cache(maxsize=256)
def compile_pipeline(pipeline: Pipeline) -> "CompiledPipeline":
    """Return the compiled definition; equal definitions share one instance with its cached parts."""
    return CompiledPipeline(pipeline)


@dataclass(frozen=True)
class CompiledPipeline:
    """Definition with everything derived from it; each part is built on first use.

    Raises:
        DefinitionError: An expression that the requested part needs does not compile.
    """

    definition: Pipeline

    @cached_property
    def row_types(self) -> Types:
        """Columns that `where` and `derive` can use: the schema's, then those from dimensions."""
        column_lists = (lookup.columns.items() for lookup in self.definition.lookups.values())
        looked_up = {name: normalize_type(kind) for columns in column_lists for name, kind in columns}
        return {**list_column_types(self.definition.source), **looked_up}

    @cached_property
    def own_types(self) -> Types:
        """Columns of a source row: the schema's, looked-up ones and derived ones."""
        return {**self.row_types, **{name: item.type for name, item in self.derived.items()}}

    @cached_property
    def column_types(self) -> Types:
        """Columns of a parsed row; of a join of two topics the right columns follow, with the join's prefix."""
        return {**self.own_types, **(self.right_types if isinstance(self.definition.join, Join) else {})}

    @cached_property
    def right(self) -> "CompiledPipeline":
        """Right side of a join, without measures; of a self join the rows of both sides."""
        return compile_pipeline(make_right_side(self.definition))

    @cached_property
    def right_types(self) -> Types:
        """Columns of the right side by their names in pairs, with the join's prefix."""
        prefix = self.definition.join.prefix if self.definition.join is not None else ""
        return {f"{prefix}{name}": kind for name, kind in self.right.own_types.items()}

    @cached_property
    def measured_types(self) -> Types:
        """Columns that measures can use: those of a row, or of a pair if there is a join."""
        return {**self.own_types, **(self.right_types if self.definition.join is not None else {})}

    @cached_property
    def key_types(self) -> Types:
        """Key columns, in the key's order."""
        return {name: self.column_types[name] for name in self.definition.key}

    @cached_property
    def where(self) -> Expression | None:
        """Condition over the schema's and the looked-up columns; None without one."""
        text = self.definition.where
        return None if text is None else compile_expression(text, self.row_types, of="where")

    @cached_property
    def derived(self) -> Mapping[str, Expression]:
        """Derived columns, which can use the schema's and the looked-up columns only."""
        texts = self.definition.derive.items()
        return {name: compile_expression(text, self.row_types, of=f"derive.{name}") for name, text in texts}

    @cached_property
    def side_conditions(self) -> Mapping[str, Expression]:
        """Conditions of a self join's sides, `join.left` and `join.right`; empty for other pipelines."""
        join = self.definition.join
        if not isinstance(join, SelfJoin):
            return {}
        sides = {"join.left": join.left, "join.right": join.right}
        return {name: compile_expression(text, self.own_types, of=name) for name, text in sides.items()}

    @cached_property
    def measured(self) -> Mapping[str, Expression | None]:
        """Input of each measure, over the columns of a row or a pair; None without an input (a count)."""
        measures = self.definition.measures.items()
        return {name: _compile_measure(name, measure, self.measured_types) for name, measure in measures}

    def measured_type(self, name: str) -> str | None:
        """Return the type of a measure's input; None without an input (a count)."""
        expression = self.measured[name]
        return None if expression is None else expression.type

    @cached_property
    def expressions(self) -> tuple[Expression, ...]:
        """All expressions over rows: `where`, derived columns, and measures or the sides of a self join."""
        further = self.measured if self.definition.join is None else self.side_conditions
        expressions = (self.where, *self.derived.values(), *further.values())
        return tuple(item for item in expressions if item is not None)

    @cached_property
    def passes(self) -> str:
        """Spark SQL condition, never null, that a row passes `where` and is on a side of a self join."""
        condition = "true" if self.where is None else f"({self.where.spark} IS TRUE)"
        sides = " OR ".join(f"{item.spark} IS TRUE" for item in self.side_conditions.values())
        return f"({condition} AND ({sides}))" if sides else condition

    @cached_property
    def row_failed(self) -> str:
        """Spark SQL condition, never null, that an expression of the definition failed on a row.

        Over the schema's and the derived columns; `false` if none can fail. A row that `where` would filter is
        malformed, too, if an expression fails on it: malformed takes precedence.
        """
        return _join_by_or(item.spark_failed for item in self.expressions)

    @cached_property
    def row_failed_duckdb(self) -> str:
        """Condition of `row_failed` in DuckDB's SQL."""
        return _join_by_or(item.duckdb_failed for item in self.expressions)

    @cached_property
    def states(self) -> tuple[StateColumn, ...]:
        """State columns in order; `create` is Spark SQL over the schema's and the derived columns."""
        if self.definition.join is not None:
            return tuple(side.state for side in self.sides)
        return tuple(state for states in self._measure_states.values() for state in states)

    @cached_property
    def _measure_states(self) -> Mapping[str, tuple[StateColumn, ...]]:
        expressions = self.measured.items()
        return {name: _make_states(name, self.definition.measures[name], item) for name, item in expressions}

    @cached_property
    def finishes(self) -> Mapping[str, str]:
        """Result of each measure in DuckDB's SQL over state columns; for a join, over the columns built from pairs."""
        if self.definition.join is not None:
            return {name: name for name in self.definition.measures}
        finish_by_measure = {name: self._finish(name) for name in self.definition.measures}
        return {name: name if finish is None else finish.sql for name, finish in finish_by_measure.items()}

    @cached_property
    def result_types(self) -> Types:
        """Result type of each measure."""
        columns = {state.column: state.type for states in self._measure_states.values() for state in states}
        finish_by_measure = {name: self._finish(name) for name in self.definition.measures}
        return {name: columns[name] if finish is None else finish.type for name, finish in finish_by_measure.items()}

    def _finish(self, name: str) -> Finish | None:
        return self.definition.measures[name].finish(name, self.measured_type(name))

    @cached_property
    def sides(self) -> tuple[JoinSide, JoinSide]:
        """Left and right side of the join; only for a definition that has one."""
        return (self._make_side("left"), self._make_side("right"))

    @cached_property
    def used_sides(self) -> Mapping[str, frozenset[Name]]:
        """Sides whose columns each measure reads; a key column belongs to neither."""
        columns = {side.name: {column.lower() for column in side.types} for side in self.sides}
        read_columns = self._read_columns.items()
        return {name: frozenset(side for side in columns if names & columns[side]) for name, names in read_columns}

    @cached_property
    def pair_types(self) -> Types:
        """Columns of a pair: the key's and those of both bags."""
        names = {*self.definition.key, *(name for side in self.sides for name in side.types)}
        return {name: kind for name, kind in self.measured_types.items() if name in names}

    @cached_property
    def _read_columns(self) -> Mapping[str, frozenset[str]]:
        measures = self.definition.measures.items()
        return {name: find_columns(str(measure.expression or "1")) for name, measure in measures}

    @cached_property
    def interval(self) -> PairInterval | None:
        """Range of the distance of the two rows of a pair; None: the rows of a window are paired."""
        join, window = self.definition.join, self.definition.window
        bounds = join.bounds if isinstance(join, Join) else None
        if bounds is None or not isinstance(join, Join) or not isinstance(window, SlidingWindows):
            return None
        lower, upper = bounds
        left = self.definition.source.event_time
        return PairInterval(left=left, right=join.right_time, lower=lower, upper=upper, every=window.every)

    @cached_property
    def _interval_columns(self) -> frozenset[str]:
        """Columns of a pair that an interval join needs besides those of measures, in lower case."""
        join = self.definition.join
        if self.interval is None or not isinstance(join, Join):
            return frozenset()
        return frozenset(name.lower() for name in (self.interval.left, self.interval.right, *join.pair_ids))

    def _make_side(self, name: Name) -> JoinSide:
        join, key = self.definition.join, self.definition.key
        read_columns = frozenset[str]().union(*self._read_columns.values(), self._interval_columns)
        types_of_side = self.own_types if name == "left" else self.right_types
        types = {
            column: kind
            for column, kind in types_of_side.items()
            if column.lower() in read_columns and column not in key
        }
        if isinstance(join, Join):
            condition, prefix = f"_partition {'<' if name == 'left' else '>='} {RIGHT_PARTITION_BASE}", ""
        else:
            condition = f"{self.side_conditions[f'join.{name}'].spark} IS TRUE"
            prefix = join.prefix if join is not None and name == "right" else ""
        sources = {column: f"`{column.removeprefix(prefix)}`" for column in types}
        return JoinSide(name=name, types=types, sources=sources, condition=condition)


def _compile_measure(name: str, measure: Measure, types: Types) -> Expression | None:
    text = measure.expression
    return None if text is None else compile_expression(text, types, of=f"measures.{name}", limit=_get_limit(measure))


def _get_limit(measure: Measure) -> float | None:
    """Return the limit of a double's magnitude so that sums are exact; None if any finite value is allowed."""
    if isinstance(measure, Variance):
        return doubles.SQUARE_LIMIT
    return doubles.SUM_LIMIT if isinstance(measure, Sum | Avg) else None


def _make_states(name: str, measure: Measure, expression: Expression | None) -> tuple[StateColumn, ...]:
    if expression is None or isinstance(measure, Count):
        return tuple(measure.states(name, None))
    return tuple(replace(measure, expression=expression.spark).states(name, expression.type))


def _join_by_or(conditions: Iterable[str]) -> str:
    possible = [text for text in conditions if text != NEVER]
    return "(" + " OR ".join(possible) + ")" if possible else NEVER
