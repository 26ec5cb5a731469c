"""A compiled definition: what both paths and the reference take from it, in types and in the SQL of each engine.

Every text here is a value that never raises; `row_failed` says on which rows one of them failed (class `malformed`,
reason `expression`). Columns are in backticks in Spark's SQL; a plain column stays a plain column. Types are known
without an engine, since the whitelist of expressions is typed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from cutover.definition.compile.bags import Name, Side, find_columns
from cutover.definition.expressions.compiler import NEVER, Expression, compile_expression
from cutover.definition.measures import doubles
from cutover.definition.measures.kinds import Avg, Count, Measure, Sum
from cutover.definition.measures.states import Finish, StateColumn
from cutover.definition.measures.variance import Variance
from cutover.definition.model.joins import RIGHT_PARTITION_BASE, Join, SelfJoin
from cutover.definition.model.pipeline import Pipeline, make_right_side
from cutover.definition.model.topic import list_column_types, normalize_type

Types = Mapping[str, str]
"""Column or measure to its Spark type."""


@lru_cache(maxsize=256)
def compile_pipeline(pipeline: Pipeline) -> "CompiledPipeline":
    """Return the compiled definition; equal definitions share one, so what was compiled once stays compiled."""
    return CompiledPipeline(pipeline)


@dataclass(frozen=True)
class CompiledPipeline:
    """A definition with everything derived from it; each part is built when it is first used.

    Raises:
        DefinitionError: By every property: an expression that the part needs does not compile.
    """

    definition: Pipeline

    @cached_property
    def row_types(self) -> Types:
        """What `where` and `derive` see: the schema's columns, then those from dimensions."""
        taken = (lookup.columns.items() for lookup in self.definition.lookups.values())
        looked_up = {name: normalize_type(kind) for columns in taken for name, kind in columns}
        return {**list_column_types(self.definition.source), **looked_up}

    @cached_property
    def own_types(self) -> Types:
        """Columns of a row of the source: its schema's, looked-up ones and the derived ones."""
        return {**self.row_types, **{name: item.type for name, item in self.derived.items()}}

    @cached_property
    def column_types(self) -> Types:
        """Columns of a parsed row: its own; of a join of two topics those of the right follow, under its prefix."""
        return {**self.own_types, **(self.right_types if isinstance(self.definition.join, Join) else {})}

    @cached_property
    def right(self) -> "CompiledPipeline":
        """The right side of a join, without measures; of a self join both sides' rows."""
        return compile_pipeline(make_right_side(self.definition))

    @cached_property
    def right_types(self) -> Types:
        """The right side's columns as pairs show them: under the join's prefix."""
        prefix = self.definition.join.prefix if self.definition.join is not None else ""
        return {f"{prefix}{name}": kind for name, kind in self.right.own_types.items()}

    @cached_property
    def measured_types(self) -> Types:
        """Inputs of measures: columns of a row, or of a pair where there is a join."""
        return {**self.own_types, **(self.right_types if self.definition.join is not None else {})}

    @cached_property
    def key_types(self) -> Types:
        """Each key column, in the key's order."""
        return {name: self.column_types[name] for name in self.definition.key}

    @cached_property
    def where(self) -> Expression | None:
        """The condition over the schema's and the looked-up columns, None where there is none."""
        text = self.definition.where
        return None if text is None else compile_expression(text, self.row_types, of="where")

    @cached_property
    def derived(self) -> Mapping[str, Expression]:
        """Derived columns, which see the schema's and the looked-up columns only."""
        texts = self.definition.derive.items()
        return {name: compile_expression(text, self.row_types, of=f"derive.{name}") for name, text in texts}

    @cached_property
    def side_conditions(self) -> Mapping[str, Expression]:
        """Conditions of a self join's sides, `join.left` and `join.right`; none of anything else."""
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
        """Every expression over rows: where, derived columns, and measures or the sides of a self join."""
        end = self.measured if self.definition.join is None else self.side_conditions
        found = (self.where, *self.derived.values(), *end.values())
        return tuple(item for item in found if item is not None)

    @cached_property
    def passes(self) -> str:
        """Spark SQL condition, never null, that a row passes `where` and is on a side of a self join."""
        own = "true" if self.where is None else f"({self.where.spark} IS TRUE)"
        sides = " OR ".join(f"{item.spark} IS TRUE" for item in self.side_conditions.values())
        return f"({own} AND ({sides}))" if sides else own

    @cached_property
    def row_failed(self) -> str:
        """Spark SQL condition, never null, that an expression of the definition failed on a row.

        Over the schema's and the derived columns; `false` where none can fail. A row that `where` would filter is
        malformed too if an expression fails on it: malformed comes first.
        """
        return _join_by_or(item.spark_failed for item in self.expressions)

    @cached_property
    def row_failed_duckdb(self) -> str:
        """The same condition in DuckDB's SQL."""
        return _join_by_or(item.duckdb_failed for item in self.expressions)

    @cached_property
    def states(self) -> tuple[StateColumn, ...]:
        """All state columns in order; `create` is Spark SQL over the schema's and the derived columns."""
        if self.definition.join is not None:
            return tuple(side.state for side in self.sides)
        return tuple(state for states in self._measure_states.values() for state in states)

    @cached_property
    def _measure_states(self) -> Mapping[str, tuple[StateColumn, ...]]:
        found = self.measured.items()
        return {name: _make_states(name, self.definition.measures[name], item) for name, item in found}

    @cached_property
    def finishes(self) -> Mapping[str, str]:
        """Each measure's result, in DuckDB's SQL over state columns; of a join over what pairs give."""
        if self.definition.join is not None:
            return {name: name for name in self.definition.measures}
        made = {name: self._finish(name) for name in self.definition.measures}
        return {name: name if finish is None else finish.sql for name, finish in made.items()}

    @cached_property
    def result_types(self) -> Types:
        """Each measure's result."""
        columns = {state.column: state.type for states in self._measure_states.values() for state in states}
        made = {name: self._finish(name) for name in self.definition.measures}
        return {name: columns[name] if finish is None else finish.type for name, finish in made.items()}

    def _finish(self, name: str) -> Finish | None:
        return self.definition.measures[name].finish(name, self.measured_type(name))

    @cached_property
    def sides(self) -> tuple[Side, Side]:
        """Left and right of the join, which the definition has."""
        return (self._make_side("left"), self._make_side("right"))

    @cached_property
    def used_sides(self) -> Mapping[str, frozenset[Name]]:
        """The sides whose columns each measure reads; a key column belongs to none."""
        columns = {side.name: {column.lower() for column in side.types} for side in self.sides}
        used = self._looked_at.items()
        return {name: frozenset(side for side in columns if looked & columns[side]) for name, looked in used}

    @cached_property
    def pair_types(self) -> Types:
        """Columns that a pair has in hand: the key's and those of both bags."""
        retained = {*self.definition.key, *(name for side in self.sides for name in side.types)}
        return {name: kind for name, kind in self.measured_types.items() if name in retained}

    @cached_property
    def _looked_at(self) -> Mapping[str, frozenset[str]]:
        measures = self.definition.measures.items()
        return {name: find_columns(str(measure.expression or "1")) for name, measure in measures}

    def _make_side(self, name: Name) -> Side:
        join, key = self.definition.join, self.definition.key
        expected = frozenset[str]().union(*self._looked_at.values())
        types_of_side = self.own_types if name == "left" else self.right_types
        types = {c: kind for c, kind in types_of_side.items() if c.lower() in expected and c not in key}
        if isinstance(join, Join):
            here, prefix = f"_partition {'<' if name == 'left' else '>='} {RIGHT_PARTITION_BASE}", ""
        else:
            here = f"{self.side_conditions[f'join.{name}'].spark} IS TRUE"
            prefix = join.prefix if join is not None and name == "right" else ""
        sources = {column: f"`{column.removeprefix(prefix)}`" for column in types}
        return Side(name=name, types=types, sources=sources, here=here)


def _compile_measure(name: str, measure: Measure, types: Types) -> Expression | None:
    text = measure.expression
    return None if text is None else compile_expression(text, types, of=f"measures.{name}", limit=_limit(measure))


def _limit(measure: Measure) -> float | None:
    """Return what doubles must be smaller than in magnitude, to be added up exactly; None: finite is enough."""
    if isinstance(measure, Variance):
        return doubles.SQUARE_LIMIT
    return doubles.SUM_LIMIT if isinstance(measure, Sum | Avg) else None


def _make_states(name: str, measure: Measure, expression: Expression | None) -> tuple[StateColumn, ...]:
    if expression is None or isinstance(measure, Count):
        return tuple(measure.states(name, None))
    return tuple(replace(measure, expression=expression.spark).states(name, expression.type))


def _join_by_or(conditions: Iterable[str]) -> str:
    there = [text for text in conditions if text != NEVER]
    return "(" + " OR ".join(there) + ")" if there else NEVER
