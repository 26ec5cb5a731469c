"""Two versions of a stream beside one another at one cut: accepted and late records together must give the same.

Which records are late follows from where epochs end and may differ between two versions; what they add up to may not.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or ours

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb

from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.errors import DefinitionError, LakeError
from cutover.lake.control import versions
from cutover.lake.control.versions import Version, looking_at
from cutover.lake.epochs import prefix
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.integrity import table_weights
from cutover.quoting import identifier
from cutover.records.classes import Class
from cutover.records.fold import finish_sql
from cutover.settings import Settings

SHOWN = 20
_SIDES = ("serving", "beside")


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionComparison:
    """What two versions say about each other, at the same offsets."""

    pipeline: str
    serving: int  # version
    beside: int
    epochs: tuple[int, int]  # of the cut, in each
    rows: int  # (window, key), of either
    late: tuple[int, int]  # (record, window) pairs that each judged late
    counts: Mapping[str, int]  # changed, missing (in the one beside), extra -> (window, key) rows
    examples: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """Return 0: they add up to the same; 1: they do not."""
        return int(bool(self.counts))


def compare(settings: Settings, pipeline: Pipeline, number: int) -> VersionComparison:
    """Compare the version that serves with another one, at the newest cut that both have.

    Raises:
        DefinitionError: The other one serves itself, or is not there.
        LakeError: They have no cut in common, or a table cannot be read.
    """
    serving = table_weights.refuse_no_epochs(settings, pipeline, versions.current(looking_at(settings, None), pipeline))
    chosen = looking_at(settings, number)
    beside = table_weights.refuse_no_epochs(chosen, pipeline, versions.current(chosen, pipeline))
    if serving.number == beside.number:
        msg = f"Versions of `{pipeline.name}`: expected another one than that which serves, got stream-{number}."
        raise DefinitionError(msg)
    logs = tuple(EpochLog(version.uri) for version in (serving, beside))
    epochs = find_common_cut(logs[0].records(), logs[1].records())
    if epochs is None or _is_folded(logs, epochs):
        raise _make_no_cut_error(pipeline, serving, beside)
    with queries.connect(queries.reading(settings)) as connection:
        for name, log, epoch in zip(_SIDES, logs, epochs, strict=True):
            log.relation(connection, f"log_{name}", epoch=epoch)
            folded = finish_sql(pipeline, f"log_{name}", keep=(Class.ACCEPTED, Class.LATE))
            connection.execute(f"CREATE TEMP TABLE {name} AS {folded}")
        connection.execute(f"CREATE TEMP TABLE joined AS {_join_sql(pipeline)}")
        return VersionComparison(
            pipeline=pipeline.name,
            serving=serving.number,
            beside=beside.number,
            epochs=epochs,
            rows=_number(connection, "SELECT count(*) FROM joined"),
            late=(_count_late(connection, _SIDES[0]), _count_late(connection, _SIDES[1])),
            counts={str(kind): int(count) for kind, count in connection.execute(_COUNTS).fetchall()},
            examples=tuple(str(row[0]) for row in connection.execute(_EXAMPLES).fetchall()),
        )


_COUNTS = "SELECT _change, count(*) FROM joined WHERE _change <> 'same' GROUP BY 1 ORDER BY 1"
_EXAMPLES = f"SELECT _place || ': ' || _change FROM joined WHERE _change <> 'same' ORDER BY 1 LIMIT {SHOWN}"


def find_common_cut(first: Sequence[EpochRecord], second: Sequence[EpochRecord]) -> tuple[int, int] | None:
    """Return the newest epochs of two versions that end at the same offsets of the same log; None: there are none."""
    ends = {_key(record): record.epoch for record in first}
    return next(((ends[_key(one)], one.epoch) for one in reversed(second) if _key(one) in ends), None)


def _key(record: EpochRecord) -> tuple[object, ...]:
    return (record.topic_id, *sorted(record.end.items()))


def _is_folded(logs: Sequence[EpochLog], epochs: tuple[int, int]) -> bool:
    """Return whether later epochs were merged into those of the cut, so that it cannot be read any more."""
    return any(
        prefix.find_folded_classes(log, [record for record in log.records() if record.epoch <= epoch])
        for log, epoch in zip(logs, epochs, strict=True)
    )


def _make_no_cut_error(pipeline: Pipeline, serving: Version, beside: Version) -> LakeError:
    msg = f"Versions of `{pipeline.name}`: expected epochs of stream-{serving.number} and stream-{beside.number} that "
    msg += "end at the same offsets, found none that can be read."
    hint = f"`cutover replay {pipeline.name} --into {beside.number}` goes on from where it is; while records arrive, "
    hint += f"compare each with batch: `cutover reconcile {pipeline.name} --version {beside.number}`, "
    hint += "then `cutover serve --uncompared`"
    return LakeError(msg + f"\nHint: {hint}.")


def _join_sql(pipeline: Pipeline) -> str:
    keys = [identifier(name) for name in ("window_start", "window_end", *pipeline.key)]
    on = " AND ".join(f"a.{key} IS NOT DISTINCT FROM b.{key}" for key in keys)
    values = [identifier(name) for name in (*pipeline.measures, "_n")]
    differ = " OR ".join(f"a.{name} IS DISTINCT FROM b.{name}" for name in values)
    place = ", ', ', ".join(f"coalesce(a.{key}, b.{key})::VARCHAR" for key in (keys[0], *keys[2:]))
    kind = f"CASE WHEN b.__in IS NULL THEN 'missing' WHEN a.__in IS NULL THEN 'extra' WHEN {differ} THEN 'changed'"
    sides = (f"(SELECT *, true AS __in FROM {name})" for name in _SIDES)
    joined = f"{' a FULL JOIN '.join(sides)} b ON {on}"
    return f"SELECT concat({place}) AS _place, {kind} ELSE 'same' END AS _change FROM {joined}"


def _count_late(connection: duckdb.DuckDBPyConnection, name: str) -> int:
    return _number(connection, f"SELECT coalesce(sum(_n), 0) FROM log_{name} WHERE _class = '{Class.LATE}'")


def _number(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    return int(connection.execute(query).fetchall()[0][0])
