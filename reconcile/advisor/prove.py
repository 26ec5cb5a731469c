"""What was predicted of settings beside what the streaming path does under them over the same epochs, unserved.

A window's on-time answer is that of the moment at which the watermark passes its end. So it was exact if no record
came later: of sessions that is a run with no allowed lateness, in which all such records are late; of other windows
the epochs of one run tell, since each row has the one that it came with.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`, the rest are numbers of ours

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa

from cutover.definition.model.lateness import Lateness
from cutover.definition.model.pipeline import Pipeline
from cutover.durations import format_duration
from cutover.engine import queries
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.epochs.repeats import find_repeat
from cutover.quoting import identifier
from cutover.reconcile.advisor.predict import NamedSetting
from cutover.records.classes import Class
from cutover.records.fold import SESSION, group_sessions_sql
from cutover.settings import Settings

Progress = Callable[[str, int, int], None]  # setting, epochs done, of

_EPOCHS = pa.schema([("epoch", pa.int64()), ("watermark", pa.int64())])


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundOutcome:
    """What a run under one setting has come to."""

    windows: int
    exact: int  # windows without a late record
    on_time: int  # windows to which no record came once the watermark had passed their end
    late: int  # (record, window) pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenSetting:
    """A setting, what was predicted of it, and what was found."""

    setting: NamedSetting
    found: FoundOutcome

    @property
    def holds(self) -> bool:
        """Return whether all that was predicted was found."""
        told = self.setting.prediction
        predicted = FoundOutcome(windows=told.windows, exact=told.exact, on_time=told.on_time, late=told.late)
        return predicted == self.found


def prove_settings(
    settings: Settings,
    pipeline: Pipeline,
    newest_epoch: int,
    wanted: Sequence[NamedSetting],
    progress: Progress,
) -> tuple[ProvenSetting, ...]:
    """Run the streaming path once a setting, over the epochs that the predictions are made from.

    Args:
        settings: Of the installation; nothing that it serves is written.
        pipeline: The definition.
        newest_epoch: The last one that the predictions are made from.
        wanted: Predictions to prove.
        progress: Told after each epoch.

    Raises:
        LogError: The log no longer holds all that the epochs read.
        LakeError: The epochs cannot be run once more.
    """
    version = versions.current(settings, pipeline)
    known = [] if version is None else EpochLog(version.uri).records()
    records = [one for one in known if one.epoch <= newest_epoch and not one.final]
    runs: dict[tuple[int, int], FoundOutcome] = {}

    def run(out_of_orderness: int, allowed: int) -> FoundOutcome:
        setting = (out_of_orderness, allowed)
        if setting not in runs:
            name = "/".join(map(format_duration, setting))
            tried = replace(pipeline, lateness=_make_lateness(pipeline, *setting))
            with find_repeat()(settings, tried, records, lambda done, of: progress(name, done, of)) as uri:
                runs[setting] = find_outcome(EpochLog(uri), tried)
        return runs[setting]

    proven = []
    for one in wanted:
        told = one.prediction
        found = run(told.out_of_orderness, told.allowed)
        if pipeline.window.merges:
            found = replace(found, on_time=run(told.out_of_orderness, 0).exact)
        proven.append(ProvenSetting(setting=one, found=found))
    return tuple(proven)


def _make_lateness(pipeline: Pipeline, out_of_orderness: int, allowed: int) -> Lateness:
    lengths = {"out_of_orderness": format_duration(out_of_orderness), "allowed": format_duration(allowed)}
    return replace(pipeline.lateness, **lengths)


def find_outcome(log: EpochLog, pipeline: Pipeline) -> FoundOutcome:
    """Return what an epoch log says of its windows; `on_time` of sessions is not told by it, and is that of `exact`.

    Args:
        log: Of a run whose rows are not folded.
        pipeline: The definition that it ran under.
    """
    records = log.records()
    with queries.connect() as connection:
        log.relation(connection, "rows", epoch=records[-1].epoch if records else -1)
        before = [(one.epoch, one.watermark_before) for one in records]
        columns = [list(values) for values in zip(*before, strict=True)] or [[], []]
        connection.register("epochs", pa.table(columns, schema=_EPOCHS))
        (late,) = _row(connection, f"SELECT coalesce(sum(_n), 0) FROM rows WHERE _class = '{Class.LATE}'")
        windows, exact, on_time = _row(connection, _count_sql(pipeline))
    return FoundOutcome(windows=windows, exact=exact, on_time=on_time, late=late)


def _count_sql(pipeline: Pipeline) -> str:
    """Return the query of how many windows there are, without a late record, and complete when time passed them."""
    kept = f"SELECT *, _class = '{Class.LATE}' AS __late FROM rows WHERE _class IN ('{Class.ACCEPTED}', '{Class.LATE}')"
    if pipeline.window.merges:
        key = "".join(f", {identifier(name)}" for name in pipeline.key)
        grouped = group_sessions_sql(pipeline.key, f"({kept})")
        each = f"SELECT bool_or(__late) AS late, bool_or(__late) AS after FROM ({grouped}) GROUP BY {SESSION}{key}"
    else:
        passed = f"e.watermark - {pipeline.window.late_after} >= epoch_us(r.window_end)"
        each = (
            f"SELECT bool_or(__late) AS late, bool_or(coalesce({passed}, false)) AS after"
            f" FROM ({kept}) r JOIN epochs e ON r._epoch = e.epoch GROUP BY r.window_start"
        )
    return f"SELECT count(*), count(*) FILTER (NOT late), count(*) FILTER (NOT after) FROM ({each})"


def _row(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[int, ...]:
    return tuple(int(value) for value in connection.execute(query).fetchall()[0])
