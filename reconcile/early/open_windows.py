"""Accuracy of the stream's results for windows that are open at the cut, by age, compared with the log's records.

Batch computes only closed windows, so the open ones are folded here from the log in plain Python: the newest ones, up
to a number of records. They are compared with the results that users see: the newest pane of each row, or without
panes the accepted rows so far. Panes follow a trigger and therefore lag; accepted rows should be equal. The age of a
window is the event time that has passed since its start.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.triggers import Accumulation
from cutover.definition.windows.window_fn import Interval
from cutover.errors import LakeError, LogError
from cutover.lake.dimensions.joined_versions import Rejoin
from cutover.lake.serving.views import panes_sql
from cutover.log.kafka import LogClient, RawRecord
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import identifier
from cutover.reconcile.attribution import log_rows
from cutover.reconcile.attribution.log_rows import LogReader, Place
from cutover.reconcile.attribution.proof import find_gone_records
from cutover.reconcile.comparison.layout import same, to_plain
from cutover.reconcile.comparison.sides import Sides
from cutover.reconcile.early.answers import NEAR, SHARES
from cutover.reconcile.preconditions.seal import SealEvidence
from cutover.reconcile.result.measurements import EarlyError, OpenAnswers, OpenPoint
from cutover.reconcile.result.parts import rate
from cutover.records.classes import Class
from cutover.records.fold import finish_sql
from cutover.records.reference.run import place_records
from cutover.records.watermark import is_closed_sql

EDGES = (0, 1, 2, 5, 15, 30, 60, 120, 240, 480, 1440, 2880, 10_080)
"""Minutes."""

_MINUTE = 60_000_000

MOST_RECORDS = 20_000
"""Maximum number of records of open windows that are read and folded: plain Python takes a second for them."""

Values = Mapping[str, Any]
Rows = dict[Place, Values]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWindow:
    """Open window with the error of each measure."""

    start: int  # microseconds
    is_same: bool
    errors: Mapping[str, float]

    @property
    def worst(self) -> float:
        """Return the largest error of any measure."""
        return max(self.errors.values(), default=0.0)


def gather_points(windows: Iterable[tuple[int, bool, float]]) -> tuple[OpenPoint, ...]:
    """Build a point for each range of ages that contains a window.

    Args:
        windows: Age (microseconds; below 0: time has not reached its start), whether all rows agree, largest error.
    """
    rows = list(windows)
    points = []
    for low, high in ((None, 0), *pairwise(EDGES), (EDGES[-1], None)):
        group = [row for row in rows if _is_between(row[0] / _MINUTE, low, high)]
        if group:
            point = OpenPoint(
                from_minutes=float(0 if low is None else low),
                to_minutes=None if high is None else float(high),
                windows=len(group),
                same=sum(is_same for _, is_same, _ in group),
                largest=max(largest for *_, largest in group),
            )
            points.append(point)
    return tuple(points)


def _is_between(minutes: float, low: int | None, high: int | None) -> bool:
    return (low is None or minutes >= low) and (high is None or minutes < high)


def measure_open_windows(
    lake: PipelineLake,
    evidence: SealEvidence,
    sides: Sides,
    *,
    log: LogReader | None,
    silent: str | None,
) -> OpenAnswers:
    """Measure how accurate the stream's results of open windows are.

    Args:
        lake: Pipeline that is compared.
        evidence: The cut, its batch run and the epoch log.
        sides: Open sides.
        log: Reader of the records; None: the cluster of the settings.
        silent: Reason why the cluster is not available; None: it is.
    """
    pipeline = lake.pipeline
    panes = bool(evidence.records) and evidence.records[-1].panes is not None
    source = "panes" if panes else "aggregates"
    if pipeline.window.merges:
        return _make_unknown(0, source, "Sessions grow and join: an open one is no answer yet.")
    windows, selected = _select_windows(sides, pipeline, evidence.watermark)
    if not windows:
        return _make_unknown(0, source, "No window is open at the cut.")
    if not selected:
        return _make_unknown(windows, source, f"Each holds more than {MOST_RECORDS:,} records.")
    if silent is not None and log is None:
        return _make_unknown(windows, source, silent)
    try:
        truth = _fold_log(lake, evidence, sides, log or LogClient(lake.settings), selected)
    except (LogError, LakeError) as error:
        return _make_unknown(windows, source, str(error).split("\n", maxsplit=1)[0])
    comparisons = _compare(truth, _read_shown(sides, pipeline, evidence, selected, panes=panes), selected)
    event_time = (evidence.watermark or 0) + pipeline.lateness.out_of_orderness_micros
    return OpenAnswers(
        near=NEAR,
        windows=windows,
        looked=len(comparisons),
        shown=source,
        same=sum(comparison.is_same for comparison in comparisons),
        within=rate(sum(comparison.worst <= NEAR for comparison in comparisons), len(comparisons)),
        errors=_summarize(comparisons),
        points=gather_points(
            [(event_time - comparison.start, comparison.is_same, comparison.worst) for comparison in comparisons]
        ),
        unknown=None,
    )


def _make_unknown(windows: int, source: str, reason: str) -> OpenAnswers:
    return OpenAnswers(
        near=NEAR,
        windows=windows,
        looked=0,
        shown=source,
        same=0,
        within=rate(0, 0),
        errors=(),
        points=(),
        unknown=reason,
    )


def _select_windows(sides: Sides, pipeline: Pipeline, watermark: int | None) -> tuple[int, list[Interval]]:
    """Count the open windows, and select the newest with at most `RECORDS` records together, ascending."""
    query = (
        "SELECT epoch_us(window_start), epoch_us(window_end), sum(_n)::BIGINT FROM all_0"
        f" WHERE NOT {is_closed_sql(pipeline, watermark)} GROUP BY 1, 2 ORDER BY 1 DESC, 2 DESC"
    )
    rows = sides.connection.execute(query).fetchall()
    selected, total = list[Interval](), 0
    for start, end, count in rows:
        total += count
        if total > MOST_RECORDS:
            break
        selected.append(Interval(start, end))
    return len(rows), selected[::-1]


def _fold_log(
    lake: PipelineLake,
    evidence: SealEvidence,
    sides: Sides,
    log: LogReader,
    intervals: Sequence[Interval],
) -> Rows:
    """Fold the records up to the cut into the rows that batch would have of some windows.

    Raises:
        LogError: No broker answers, the topic was replaced by another log, or records have left it.
        LakeError: The index of the batch path cannot be read.
    """
    pipeline = lake.pipeline
    run = evidence.run
    description, earliest = log.describe(run.topic), log.earliest(run.topic)
    if (description.cluster_id, description.topic_id) != (run.cluster_id, run.topic_id):
        msg = f"Topic `{run.topic}` was replaced by another log."
        raise LogError(msg)
    rejoin = Rejoin(lake)
    dimensions = rejoin.at(rejoin.collect_recorded(evidence.records))
    stretches = sorted({pipeline.window.event_range(interval) for interval in intervals})
    raw: dict[tuple[int, int], RawRecord] = {}
    for portion in log_rows.list_read_portions(lake, sides.connection, run, stretches):
        missing = find_gone_records(portion, earliest, run.topic)
        if missing is not None:
            raise LogError(missing)
        raw |= {
            (record.partition, record.offset): record
            for record in log_rows.read_portion(log, pipeline, run, portion, stretches)
        }
    placed_records = list(place_records(pipeline, [raw[at] for at in sorted(raw)], dimensions))
    bounds = {(interval.start, interval.end) for interval in intervals}
    places = {Place(Interval(*record.group[:2]), tuple(map(to_plain, record.group[2]))) for record in placed_records}
    selected = [place for place in places if (place.interval.start, place.interval.end) in bounds]
    claims_by_place = log_rows.fold_places(pipeline, placed_records, {}, selected, ())
    return {
        place: {name: to_plain(value) for name, value in row.measures.items()}
        for place, claim in claims_by_place.items()
        for row in claim.batch.values()
    }


def _read_shown(
    sides: Sides, pipeline: Pipeline, evidence: SealEvidence, intervals: Sequence[Interval], *, panes: bool
) -> Rows:
    """Read the rows of some windows that users see."""
    relation = _make_panes(sides, pipeline, evidence) if panes else "all_0"
    starts = ", ".join(str(interval.start) for interval in intervals)
    names = ", ".join(map(identifier, (*pipeline.key, *pipeline.measures)))
    query = (
        f"SELECT epoch_us(window_start), epoch_us(window_end), {names} FROM {relation} AS shown"
        f" WHERE epoch_us(window_start) IN ({starts})"
    )
    rows, keys = Rows(), len(pipeline.key)
    for start, end, *values in sides.connection.execute(query).fetchall():
        place = Place(Interval(start, end), tuple(map(to_plain, values[:keys])))
        rows[place] = dict(zip(pipeline.measures, map(to_plain, values[keys:]), strict=True))
    return rows


def _make_panes(sides: Sides, pipeline: Pipeline, evidence: SealEvidence) -> str:
    """Return SQL for the rows of the panes: the newest pane of each row, or their sum if panes are discarding."""
    evidence.epoch_log.panes(sides.connection, "open_panes", epoch=evidence.run.epoch)
    if pipeline.accumulation is Accumulation.DISCARDING:
        rows = f"(SELECT * REPLACE ('{Class.ACCEPTED}' AS _class) FROM open_panes WHERE _class <> 'dropped')"
        return f"({finish_sql(pipeline, rows)})"
    rows = "(SELECT * FROM open_panes WHERE _class NOT IN ('dropped', 'retraction'))"
    keys = ", ".join(map(identifier, ("window_start", "window_end", *pipeline.key)))
    newest = f"row_number() OVER (PARTITION BY {keys} ORDER BY _epoch DESC, _order DESC) = 1"
    return f"(SELECT * FROM ({panes_sql(pipeline, rows)}) AS panes QUALIFY {newest})"


def _compare(truth: Rows, rows: Rows, intervals: Sequence[Interval]) -> list[OpenWindow]:
    places: dict[Interval, list[Place]] = {interval: [] for interval in intervals}
    for place in truth.keys() | rows.keys():
        places.setdefault(place.interval, []).append(place)
    return [_compare_window(window, places[window], truth, rows) for window in intervals]


def _compare_window(window: Interval, places: Sequence[Place], truth: Rows, rows: Rows) -> OpenWindow:
    names = next((list(side[place]) for place in places for side in (truth, rows) if place in side), [])
    is_same = all(
        place in truth and place in rows and all(same(truth[place][name], rows[place][name]) for name in names)
        for place in places
    )
    errors = {}
    for name in names:
        pairs = [(_number(truth.get(place, {}).get(name)), _number(rows.get(place, {}).get(name))) for place in places]
        deviation = math.fsum(abs(actual - expected) for expected, actual in pairs)
        magnitude = math.fsum(abs(expected) for expected, _ in pairs)
        errors[name] = deviation / magnitude if magnitude else float(deviation > 0)
    return OpenWindow(start=window.start, is_same=is_same, errors=errors)


def _number(value: Any) -> float:
    """Convert a value to a float; a missing value, or one that is not a number, becomes 0."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if math.isfinite(number) else 0.0


def _summarize(open_windows: Sequence[OpenWindow]) -> tuple[EarlyError, ...]:
    names = dict.fromkeys(name for open_window in open_windows for name in open_window.errors)
    summaries = []
    for name in names:
        errors = sorted(open_window.errors.get(name, 0.0) for open_window in open_windows)
        p50, p90, p99 = (errors[max(0, math.ceil(share * len(errors)) - 1)] for share in SHARES)
        summaries.append(EarlyError(measure=name, p50=p50, p90=p90, p99=p99, largest=errors[-1]))
    return tuple(summaries)
