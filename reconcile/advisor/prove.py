"""Proof of predictions: the streaming path runs with the settings over the same epochs, without serving its results.

A window's on-time answer is its result when the watermark passes its end, so it was exact if no record came later. For
sessions this takes a run without allowed lateness, in which all such records are late; for other windows the epochs of
one run show it, since each row has its epoch. A table in Markdown shows the predicted and the measured effect.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`, the rest are internal numbers
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from cutover import files
from cutover.definition.model.pipeline import Lateness, Pipeline
from cutover.engine import queries
from cutover.errors import DefinitionError
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.registered_functions import find_repeat
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import identifier
from cutover.reconcile.advisor.advice_text import PROOF_HEADS, list_proof_rows
from cutover.reconcile.advisor.gather import list_newest_events
from cutover.reconcile.advisor.predict import ALWAYS, Micros, count_held, measure_delay
from cutover.reconcile.result.parts import Advice, MeasuredOutcome, NamedSetting, ProvenSetting
from cutover.records.classes import Class
from cutover.records.fold import SESSION, group_sessions_sql
from cutover.timestamps import shorten_duration

Progress = Callable[[str, int, int], None]  # setting, epochs done, of

_EPOCHS = pa.schema([("epoch", pa.int64()), ("watermark", pa.int64())])


def prove_settings(
    lake: PipelineLake,
    newest_epoch: int,
    named_settings: Sequence[NamedSetting],
    progress: Progress,
) -> tuple[ProvenSetting, ...]:
    """Run the streaming path once for each setting, over the epochs of the predictions.

    Args:
        lake: The pipeline; nothing that it serves is written.
        newest_epoch: The last epoch of the predictions.
        named_settings: Predictions to prove.
        progress: Called after each epoch.

    Raises:
        LogError: The log no longer holds all that the epochs read.
        LakeError: The epochs cannot be run again.
    """
    pipeline = lake.pipeline
    version = versions.find_current_version(lake)
    all_records = [] if version is None else EpochLog(version.uri).records()
    records = [record for record in all_records if record.epoch <= newest_epoch and not record.final]
    runs: dict[tuple[int, int], MeasuredOutcome] = {}

    def run(out_of_orderness: int, allowed: int) -> MeasuredOutcome:
        setting = (out_of_orderness, allowed)
        if setting not in runs:
            name = "/".join(map(shorten_duration, setting))
            variant = replace(pipeline, lateness=_make_lateness(pipeline, *setting))
            with find_repeat()(
                PipelineLake(lake.settings, variant), records, lambda count, total: progress(name, count, total)
            ) as uri:
                runs[setting] = measure_outcome(EpochLog(uri), variant)
        return runs[setting]

    proven = []
    for named_setting in named_settings:
        prediction = named_setting.prediction
        outcome = run(prediction.out_of_orderness, prediction.allowed)
        if pipeline.window.merges:
            outcome = replace(outcome, on_time=run(prediction.out_of_orderness, 0).exact)
        proven.append(ProvenSetting(setting=named_setting, found=outcome, is_held_bound=pipeline.window.merges))
    return tuple(proven)


def _make_lateness(pipeline: Pipeline, out_of_orderness: int, allowed: int) -> Lateness:
    lengths = {"out_of_orderness": shorten_duration(out_of_orderness), "allowed": shorten_duration(allowed)}
    return replace(pipeline.lateness, **lengths)


def measure_outcome(log: EpochLog, pipeline: Pipeline) -> MeasuredOutcome:
    """Measure the outcome of a run from its epoch log; for sessions `on_time` equals `exact`.

    Args:
        log: Epoch log of a run whose rows are not folded.
        pipeline: The definition of the run.
    """
    records = [record for record in log.records() if not record.final]
    with queries.open_duckdb() as connection:
        log.relation(connection, "rows", epoch=records[-1].epoch if records else -1)
        watermarks = [(record.epoch, record.watermark_before) for record in records]
        columns = [list(values) for values in zip(*watermarks, strict=True)] or [[], []]
        connection.register("epochs", pa.table(columns, schema=_EPOCHS))
        (late,) = _row(connection, f"SELECT coalesce(sum(_n), 0) FROM rows WHERE _class = '{Class.LATE}'")
        connection.execute(f"CREATE TEMP TABLE cells AS {_make_cells_sql(pipeline)}")
        by_window = "rowid" if pipeline.window.merges else "s"
        windows_sql = f"SELECT bool_or(late) AS late, bool_or(after) AS after FROM cells GROUP BY {by_window}"
        counts = "count(*), count(*) FILTER (NOT late), count(*) FILTER (NOT after)"
        windows, exact, on_time = _row(connection, f"SELECT {counts} FROM ({windows_sql})")
        (late_rows,) = _row(connection, "SELECT count(*) FILTER (late) FROM cells")
        half, nearly_all = _measure_delay(connection, pipeline, records)
        row_count = _count_held(connection, pipeline, records)
    return MeasuredOutcome(
        windows=windows,
        exact=exact,
        on_time=on_time,
        late_rows=late_rows,
        late=late,
        held=row_count,
        delay_p50=half,
        delay_p99=nearly_all,
    )


def _make_cells_sql(pipeline: Pipeline) -> str:
    """Build the query of the (window, key) rows.

    `s` and `e`: start and end of the window; `late`: it has a late record; `after`: it has a record that came after the
    watermark had passed the end; `begun`: the first epoch that accepted a record, null if none did.
    """
    counted_rows = (
        f"SELECT *, _class = '{Class.LATE}' AS __late FROM rows WHERE _class IN ('{Class.ACCEPTED}', '{Class.LATE}')"
    )
    key = "".join(f", {identifier(name)}" for name in pipeline.key)
    if pipeline.window.merges:
        relation, group, is_after_watermark = (
            f"({group_sessions_sql(pipeline.key, f'({counted_rows})')})",
            SESSION,
            "__late",
        )
    else:
        relation, group = f"({counted_rows})", "window_start"
        is_after_watermark = f"coalesce(e.watermark - {pipeline.window.late_after} >= epoch_us(r.window_end), false)"
    return (
        "SELECT min(r.window_start) AS s, epoch_us(max(r.window_end)) AS e, bool_or(__late) AS late,"
        f" bool_or({is_after_watermark}) AS after, min(r._epoch) FILTER (NOT __late) AS begun"
        f" FROM {relation} r JOIN epochs e ON r._epoch = e.epoch GROUP BY {group}{key}"
    )


def _measure_delay(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, records: Sequence[EpochRecord]
) -> tuple[int | None, int | None]:
    passes = _column(connection, f"SELECT DISTINCT e + {pipeline.window.late_after} FROM cells ORDER BY 1")
    return measure_delay(passes, list_newest_events(records), _list_watermarks(records))


def _count_held(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, records: Sequence[EpochRecord]) -> int:
    counted_cells = "cells WHERE begun IS NOT NULL"
    return count_held(
        _column(connection, f"SELECT begun FROM {counted_cells} ORDER BY 1"),
        _column(connection, f"SELECT e + {pipeline.window.closes_after} FROM {counted_cells} ORDER BY 1"),
        np.array([record.epoch for record in records], np.int64),
        _list_watermarks(records) - pipeline.lateness.allowed_micros,
    )


def _list_watermarks(records: Sequence[EpochRecord]) -> Micros:
    watermarks = (record.watermark_after for record in records)
    return np.array([ALWAYS if mark is None else mark for mark in watermarks], np.int64)


def _column(connection: duckdb.DuckDBPyConnection, query: str) -> Micros:
    (values,) = connection.execute(query).fetchnumpy().values()
    return np.asarray(values, np.int64)


def _row(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[int, ...]:
    return tuple(int(value) for value in connection.execute(query).fetchall()[0])


def write_proof_table(page: Path, advice: Advice) -> None:
    """Write the table into a page, replacing the one between the marks of this pipeline.

    Raises:
        DefinitionError: The page or its marks are missing.
    """
    begin, end = f"<!-- proven: {advice.pipeline} -->\n", "<!-- /proven -->"
    old = page.read_text(encoding="utf-8") if page.is_file() else ""
    page_start, has_begin, remainder = old.partition(begin)
    _, has_end, page_end = remainder.partition(end)
    if not (has_begin and has_end):
        msg = f"--page: expected a page with `{begin.strip()}` and `{end}` on separate lines, got `{page}`."
        raise DefinitionError(msg)
    files.write_atomically(page, f"{page_start}{begin}{''.join(_list_lines(advice))}{end}{page_end}", mode=0o644)


def _list_lines(advice: Advice) -> Iterator[str]:
    for line in (PROOF_HEADS, ("---",) * len(PROOF_HEADS), *list_proof_rows(advice)):
        yield f"| {' | '.join(line)} |\n"
