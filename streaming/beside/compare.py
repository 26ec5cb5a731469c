"""Two streams beside one another at one cut: accepted and late records together must give the same.

Which records are late follows from where epochs end and may differ between two streams; what they add up to may not.
Of a changed definition all may differ that its change note declares, and nothing else.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or ours

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import duckdb

from cutover.definition.checks import change
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.model.pipeline import Change, Pipeline
from cutover.engine import queries
from cutover.errors import DefinitionError, LakeError
from cutover.lake.control import versions
from cutover.lake.control.versions import Version, looking_at
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.integrity import table_weights
from cutover.quoting import identifier
from cutover.records.classes import Class
from cutover.records.fold import finish_sql
from cutover.settings import Settings
from cutover.streaming.beside.common_cut import find_newest, find_readable_cut

SHOWN = 20
ChangeKind = Literal["changed", "missing", "extra"]
"""Of a (window, key) row of the one beside: its values differ, it is not there, only it is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A version of a stream, and the definition that it runs."""

    pipeline: Pipeline
    version: Version

    @property
    def text(self) -> str:
        """Return how messages name it: `flights stream-0`."""
        return f"{self.pipeline.name} stream-{self.version.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamComparison:
    """What two streams say about each other, at the same offsets."""

    serving: str  # `flights stream-0`
    beside: str
    epochs: tuple[int, int]  # of the cut, in each
    beyond: int  # offsets that the one beside has read behind the cut; nothing is said of them
    rows: int  # (window, key), of either
    late: tuple[int, int]  # (record, window) pairs that each judged late
    counts: Mapping[str, int]  # `ChangeKind` -> rows that differ and should not
    declared: Mapping[str, int]  # `ChangeKind` -> rows that differ as the change note declares
    examples: tuple[str, ...]  # of `counts`

    @property
    def differing(self) -> int:
        """Return the rows that differ and should not."""
        return sum(self.counts.values())

    @property
    def exit_code(self) -> int:
        """Return 0: they add up to the same, but for what is declared; 1: they do not."""
        return int(bool(self.counts))

    @property
    def found(self) -> str:
        """Return what is kept of it: `3 of 120 rows differ`, and how many as declared."""
        declared = f", {sum(self.declared.values()):,} as declared" if self.declared else ""
        rows = f"{self.differing:,} of {self.rows:,} rows differ{declared}"
        return f"compared with {self.serving} at epoch {self.epochs[1]}: {rows}"


def find_stream(settings: Settings, pipeline: Pipeline, number: int | None = None) -> Stream:
    """Return the version of a pipeline that serves, or one by number, with an epoch log that is there.

    Raises:
        DefinitionError: There is no such version.
        LakeError: It has no epoch log yet, or somebody took it away.
    """
    chosen = looking_at(settings, number)
    version = table_weights.refuse_no_epochs(chosen, pipeline, versions.current(chosen, pipeline))
    return Stream(pipeline=pipeline, version=version)


def compare_versions(settings: Settings, pipeline: Pipeline, number: int) -> StreamComparison:
    """Compare the version that serves with another one, at the newest cut that both have.

    Raises:
        DefinitionError: The other one serves itself, or is not there.
        LakeError: They have no cut in common, or a table cannot be read.
    """
    serving, beside = find_stream(settings, pipeline), find_stream(settings, pipeline, number)
    if serving.version.number == beside.version.number:
        msg = f"Versions of `{pipeline.name}`: expected another one than that which serves, got stream-{number}."
        raise DefinitionError(msg)
    hint = f"`cutover replay {pipeline.name} --into {number}` goes on to an epoch of the one that serves; or compare "
    hint += (
        f"each with batch: `cutover reconcile {pipeline.name} --version {number}`, then `cutover serve --uncompared`"
    )
    return _compare(settings, serving, beside, hint=hint)


def compare_definitions(settings: Settings, new: Pipeline, old: Pipeline) -> StreamComparison:
    """Compare a changed definition with the one whose place it is to take, at the newest cut that both have.

    Raises:
        DefinitionError: The note does not fit, or rows of the two cannot be held against one another.
        LakeError: They have no cut in common, or a table cannot be read.
    """
    change.check_pair(new, old)
    hint = f"end the driver of `{new.name}` (`cutover stream {new.name} --stop`), let it read up to an epoch of "
    hint += f"`{old.name}` (`cutover replay {new.name}`), and compare again"
    return _compare(settings, find_stream(settings, old), find_stream(settings, new), hint=hint)


def _compare(settings: Settings, serving: Stream, beside: Stream, *, hint: str) -> StreamComparison:
    logs = tuple(EpochLog(one.version.uri) for one in (serving, beside))
    epochs = find_readable_cut(*logs)
    if epochs is None:
        msg = f"{beside.text} beside {serving.text}: expected epochs that end at the same offsets, found none that "
        raise LakeError(msg + f"can be read.\nHint: {hint}.")
    with queries.connect(queries.reading(settings)) as connection:
        for name, one, log, epoch in zip(("serving", "beside"), (serving, beside), logs, epochs, strict=True):
            log.relation(connection, f"log_{name}", epoch=epoch)
            folded = finish_sql(one.pipeline, f"log_{name}", keep=(Class.ACCEPTED, Class.LATE))
            connection.execute(f"CREATE TEMP TABLE {name} AS {folded}")
        connection.execute(f"CREATE TEMP TABLE joined AS {_join_sql(beside.pipeline, serving.pipeline)}")
        return StreamComparison(
            serving=serving.text,
            beside=beside.text,
            epochs=epochs,
            beyond=_count_beyond(logs[1], epochs[1]),
            rows=_number(connection, "SELECT count(*) FROM joined"),
            late=(_count_late(connection, "serving"), _count_late(connection, "beside")),
            counts=_count(connection, "NOT _declared"),
            declared=_count(connection, "_declared"),
            examples=tuple(str(row[0]) for row in connection.execute(_EXAMPLES).fetchall()),
        )


def _count_beyond(epoch_log: EpochLog, epoch: int) -> int:
    """Return how many offsets an epoch log has read behind an epoch."""
    at = next(record for record in epoch_log.records() if record.epoch == epoch)
    return sum(end - at.end.get(partition, 0) for partition, end in find_newest(epoch_log).end.items())


_COUNTS = "SELECT _change, count(*) FROM joined WHERE _change <> 'same' AND {which} GROUP BY 1 ORDER BY 1"
_EXAMPLES = f"""
    SELECT _place || ': ' || _change FROM joined WHERE _change <> 'same' AND NOT _declared ORDER BY 1 LIMIT {SHOWN}"""


def _join_sql(new: Pipeline, old: Pipeline) -> str:
    """Return the query of each (window, key) row of either: place, `ChangeKind`, and whether that is declared."""
    note = new.change if new.name != old.name else None
    keys = [identifier(name) for name in ("window_start", "window_end", *new.key)]
    on = " AND ".join(f"a.{key} IS NOT DISTINCT FROM b.{key}" for key in keys)
    either = [f"coalesce(a.{key}, b.{key})" for key in keys]
    place = ", ', ', ".join(f"{key}::VARCHAR" for key in (either[0], *either[2:]))
    may_change = () if note is None else note.changed
    held = [name for name in new.measures if name in old.measures and name not in may_change]
    held += ["_n"] if note is None else []  # what a row is made of may change; what people see of it may not
    differ = _differ_sql(f"a.{identifier(name)} IS DISTINCT FROM b.{identifier(name)}" for name in held)
    shifted = _differ_sql(_apart_sql(name, new, old) for name in may_change)
    kind = "CASE WHEN b.__in IS NULL THEN 'missing' WHEN a.__in IS NULL THEN 'extra'"
    kind += f" WHEN {differ} OR {shifted} THEN 'changed'"
    sides = (f"(SELECT *, true AS __in FROM {name})" for name in ("serving", "beside"))
    found = f"SELECT concat({place}) AS _place, {kind} ELSE 'same' END AS _change, coalesce({differ}, false) AS _differ"
    columns = ", ".join(f"{value} AS {key}" for value, key in zip(either, keys, strict=True))
    joined = f"{found}, {columns} FROM {' a FULL JOIN '.join(sides)} b ON {on}"
    return f"SELECT _place, _change, {_declared_sql(new, note)} AS _declared FROM ({joined})"


def _declared_sql(new: Pipeline, note: Change | None) -> str:
    """Return the condition that a row may differ as it does."""
    if note is None:
        return "false"
    within = change.compile_within(new)
    kinds = {"added": "_change = 'extra'", "removed": "_change = 'missing'"}
    allowed = [*(kinds[kind] for kind in note.rows), *(["_change = 'changed' AND NOT _differ"] if note.changed else [])]
    where = "true" if within is None else f"(NOT {within.duckdb_failed} AND coalesce({within.duckdb}, false))"
    return f"({_differ_sql(f'({one})' for one in allowed)}) AND {where}"


def _apart_sql(name: str, new: Pipeline, old: Pipeline) -> str:
    """Return the condition that a measure has another value; one that became another type is compared as text."""
    kinds = {compile_pipeline(of).result_types[name] for of in (new, old)}
    as_text = "::VARCHAR" if len(kinds) > 1 else ""
    return f"a.{identifier(name)}{as_text} IS DISTINCT FROM b.{identifier(name)}{as_text}"


def _differ_sql(conditions: Iterable[str]) -> str:
    return f"({' OR '.join(conditions) or 'false'})"


def _count(connection: duckdb.DuckDBPyConnection, which: str) -> dict[str, int]:
    found = connection.execute(_COUNTS.format(which=which)).fetchall()
    return {str(kind): int(count) for kind, count in found}


def _count_late(connection: duckdb.DuckDBPyConnection, name: str) -> int:
    return _number(connection, f"SELECT coalesce(sum(_n), 0) FROM log_{name} WHERE _class = '{Class.LATE}'")


def _number(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    return int(connection.execute(query).fetchall()[0][0])
