"""Costs of both paths and of each nine of agreement, folded from the records of epochs and batch runs in the lake.

What was not recorded stays unknown. The delay of a record is at most the time from the oldest log timestamp of its
epoch to the commit. A nine of agreement costs the rows that may differ, and the wait if the stream alone reaches it,
else that for batch.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from cutover.counts import count_clause
from cutover.engine.usage import PathCost
from cutover.errors import DefinitionError, LakeError
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.tables import delta
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.result.codec import decode_tree
from cutover.reconcile.result.parts import FEW, AgreementPoint
from cutover.reconcile.result.report import Agreement, ComparisonOutcome, DayCost, Delay, Nine, PathCosts, PathTotal
from cutover.reconcile.result.text import count_noun
from cutover.reconcile.verdict import history
from cutover.recorded_times import make_monotonic
from cutover.timestamps import parse_micros

LIVE_SECONDS = 86_400.0
"""Records older than this when the stream read them were replayed, or waited for an outage: no delay of a path."""

MOST_NINES = 9

DAYS_AT_MOST = 31
FEW_RECORDS = 100_000
"""Records below which the start of processes is most of what they cost."""

Number = TypeVar("Number", int, float)
Grouped = TypeVar("Grouped")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Resources used between two records of one run."""

    run_id: str
    day: str
    records: int
    cost: PathCost | None  # None: not recorded


def select_live(epochs: Sequence[EpochRecord]) -> list[EpochRecord]:
    """Return the epochs with records that were read within a day."""
    return [epoch for epoch in epochs if (delay := _wait(epoch)) is not None and delay <= LIVE_SECONDS]


def count_replayed(epochs: Sequence[EpochRecord]) -> int:
    """Return the records of epochs whose oldest one was older than a day."""
    return sum(epoch.records for epoch in epochs if (delay := _wait(epoch)) is not None and delay > LIVE_SECONDS)


def measure_stream(live: Sequence[EpochRecord]) -> Delay:
    """Return the delay of the streaming path over epochs that were read within a day."""
    return _summarize([(_wait(epoch) or 0.0, epoch.records) for epoch in live], waiting=0)


def measure_batch(live: Sequence[EpochRecord], finished: Sequence[BatchRun]) -> Delay:
    """Return the delay of the batch path over the records of the same epochs.

    Args:
        live: The epochs.
        finished: All batch runs, in the order in which they were recorded. The first one whose cut holds an epoch has
            read its records.
    """
    waits, waiting = list_batch_waits(live, finished)
    return _summarize([(seconds, records) for _, seconds, records in waits], waiting=waiting)


def summarize_waits(waits: Sequence[tuple[float, int]]) -> Delay:
    """Return the delay of records of one day, of which none waits any more."""
    return _summarize(waits, waiting=0)


def list_batch_waits(
    live: Sequence[EpochRecord], finished: Sequence[BatchRun]
) -> tuple[list[tuple[BatchRun, float, int]], int]:
    """Return which run read the records of an epoch, after how many seconds, and how many; and those that wait."""
    run_waits: list[tuple[BatchRun, float, int]] = []
    unread: dict[str, deque[EpochRecord]] = {}
    for epoch in live:
        unread.setdefault(epoch.topic_id, deque()).append(epoch)
    for run in finished:
        ended, queue = parse_micros(run.finished), unread.get(run.topic_id, deque())
        while queue and _reaches(run.cut, queue[0].end):  # no later epoch ends before an earlier one
            run_waits.append((run, _seconds_since(queue[0], ended), queue.popleft().records))
    return run_waits, sum(epoch.records for queue in unread.values() for epoch in queue)


def _wait(epoch: EpochRecord) -> float | None:
    """Return the seconds from an epoch's oldest log timestamp to its record; None where either is not known."""
    if not epoch.records or epoch.oldest_log_time is None or not epoch.processing_time:
        return None
    return _seconds_since(epoch, parse_micros(epoch.processing_time))


def _seconds_since(epoch: EpochRecord, at: int) -> float:
    """Return the seconds from an epoch's oldest log timestamp to a moment; a producer's clock may be ahead of it."""
    return max(0.0, (at - (epoch.oldest_log_time or 0)) / 1e6)


def _reaches(cut: Mapping[int, int], end: Mapping[int, int]) -> bool:
    return all(cut.get(partition, 0) >= offset for partition, offset in end.items())


def _summarize(waits: Sequence[tuple[float, int]], *, waiting: int) -> Delay:
    ordered, total = sorted(waits), sum(records for _, records in waits)
    if not total:
        return Delay(records=0, waiting=waiting, p50=None, p90=None, p99=None, largest=None)
    p50, p90, p99 = (_quantile(ordered, share * total) for share in (0.5, 0.9, 0.99))
    return Delay(records=total, waiting=waiting, p50=p50, p90=p90, p99=p99, largest=round(ordered[-1][0], 3))


def _quantile(ordered: Sequence[tuple[float, int]], rank: float) -> float:
    """Return the least delay that at least `rank` records do not exceed."""
    running_records = 0
    for delay, records in ordered:
        running_records += records
        if running_records >= rank:
            return round(delay, 3)
    return round(ordered[-1][0], 3)


def price(agreement: Agreement, core_seconds: float | None) -> tuple[Nine, ...]:
    """Return the nines up to the first at which no row may differ.

    Args:
        agreement: Rows compared and different, and by age.
        core_seconds: What batch has used; None: not known.
    """
    return tuple(_list_nines(agreement, core_seconds))


def _list_nines(agreement: Agreement, core_seconds: float | None) -> Iterator[Nine]:
    for nines in range(1, MOST_NINES + 1):
        may_differ = agreement.rows // 10**nines
        bought = max(0, agreement.different - may_differ)
        settled = None if bought else find_settled(agreement, nines)
        yield Nine(
            nines=nines,
            may_differ=may_differ,
            bought=bought,
            core_seconds_per_row=round(core_seconds / bought, 6) if bought and core_seconds is not None else None,
            settled_minutes=settled.minutes if settled else None,
            settled_windows=settled.windows if settled else None,
            is_never_settled=bool(bought),
        )
        if not may_differ:
            return


def find_settled(agreement: Agreement, nines: int) -> AgreementPoint | None:
    """Return the first age from which on the stream's answers differ in no larger share of their rows.

    Late records are dropped, so after closing nothing changes. An age at which few windows are known, or fewer rows
    than can show the share, decides nothing; the closing holds all rows, and lacks windows alone. Of a replay, whose
    epochs read hours at once, no age before closing decides; none at all if it is unknown whether there was one.
    """
    settled = None
    if agreement.is_replay is None:
        return None
    for point in reversed(agreement.by_age):
        is_final = point is agreement.by_age[-1]
        is_early_guess = not is_final and (agreement.is_replay or point.rows < 10**nines)
        if point.windows < FEW or is_early_guess:
            continue
        if point.different > point.rows // 10**nines:
            break
        settled = point
    return settled


def fold(epochs: Iterable[EpochRecord], runs: Iterable[BatchRun], agreement: Agreement | None = None) -> PathCosts:
    """Return the cost of both paths.

    Args:
        epochs: Records of one version of the stream, any order.
        runs: Batch runs under the same definition, any order.
        agreement: Of the newest comparison; None: there is none.
    """
    ordered = sorted(epochs, key=lambda epoch: epoch.epoch)
    finished = _settle_ends(sorted(runs, key=lambda run: run.sequence))
    streaming, batch = list(list_epoch_usage(ordered)), [_split_run(run) for run in finished]
    live = select_live(ordered)
    total, waiting = sum_costs(batch), measure_batch(live, finished)
    return PathCosts(
        streaming=sum_costs(streaming),
        batch=total,
        days=_fold_days(streaming, batch, live, finished),
        streaming_delay=measure_stream(live),
        batch_delay=waiting,
        replayed=count_replayed(ordered),
        agreement=agreement,
        nines=() if agreement is None else price(agreement, total.core_seconds if _is_whole(total) else None),
        notes=(
            *_list_unknown(sum_costs(streaming), total),
            *_list_left_out(count_replayed(ordered), waiting.waiting),
        ),
    )


def _settle_ends(runs: Sequence[BatchRun]) -> list[BatchRun]:
    """Return the runs with ends that their order bears out: one clock that is years ahead makes no delay of years."""
    settled = make_monotonic([datetime.fromisoformat(run.finished) for run in runs])
    return [replace(run, finished=at.isoformat()) for run, at in zip(runs, settled, strict=True)]


def list_epoch_usage(ordered: Iterable[EpochRecord]) -> Iterable[Spent]:
    """Yield what each epoch adds to what its driver had used before; a driver counts from its own start.

    Args:
        ordered: By their numbers.
    """
    costs_by_run: dict[str, PathCost] = {}
    for epoch in ordered:
        cost = None if epoch.cost is None else _subtract(epoch.cost, costs_by_run.get(epoch.run_id))
        if epoch.cost is not None:
            costs_by_run[epoch.run_id] = epoch.cost
        yield Spent(run_id=epoch.run_id, day=_day(epoch.processing_time), records=epoch.records, cost=cost)


def _split_run(run: BatchRun) -> Spent:
    records = sum(end - start for start, end in run.scanned.values())
    return Spent(run_id=run.run_id, day=_day(run.finished), records=records, cost=run.cost)


def sum_costs(run_costs: Sequence[Spent]) -> PathTotal:
    """Return totals of what has figures, and how many runs have none."""
    runs = {run_cost.run_id for run_cost in run_costs}
    known_costs = [
        run_cost for run_cost in run_costs if run_cost.cost is not None and run_cost.cost.core_seconds is not None
    ]
    seconds = _sum(run_cost.cost.core_seconds for run_cost in run_costs if run_cost.cost is not None)
    measured = sum(run_cost.records for run_cost in known_costs)
    return PathTotal(
        runs=len(runs),
        unknown_runs=len(runs - {run_cost.run_id for run_cost in known_costs}),
        records=sum(run_cost.records for run_cost in run_costs),
        measured_records=measured,
        core_seconds=None if seconds is None else round(seconds, 3),
        read_bytes=_sum(run_cost.cost.read_bytes for run_cost in run_costs if run_cost.cost is not None),
        written_bytes=_sum(run_cost.cost.written_bytes for run_cost in run_costs if run_cost.cost is not None),
        core_seconds_per_million=None if seconds is None or not measured else round(seconds / measured * 1e6, 3),
    )


def _fold_days(
    streaming: Sequence[Spent], batch: Sequence[Spent], live: Sequence[EpochRecord], finished: Sequence[BatchRun]
) -> tuple[DayCost, ...]:
    by_day = [_group((run_cost.day, run_cost) for run_cost in path) for path in (streaming, batch)]
    epochs = _group((_day(epoch.processing_time), epoch) for epoch in live)
    read, _ = list_batch_waits(live, finished)
    waits = _group((_day(run.finished), (seconds, records)) for run, seconds, records in read)
    days = sorted({day for grouped in by_day for day in grouped if day})[-DAYS_AT_MOST:]
    return tuple(
        DayCost(
            day=day,
            streaming=sum_costs(by_day[0].get(day, [])),
            batch=sum_costs(by_day[1].get(day, [])),
            streaming_delay=measure_stream(epochs.get(day, [])),
            batch_delay=summarize_waits(waits.get(day, [])),
        )
        for day in days
    )


def _group(pairs: Iterable[tuple[str, Grouped]]) -> Mapping[str, list[Grouped]]:
    by_day: dict[str, list[Grouped]] = {}
    for day, item in pairs:
        by_day.setdefault(day, []).append(item)
    return by_day


def _subtract(now: PathCost, path_cost: PathCost | None) -> PathCost:
    if path_cost is None:
        return now
    seconds = _less(now.core_seconds, path_cost.core_seconds)
    return PathCost(
        core_seconds=None if seconds is None else round(seconds, 3),
        read_bytes=_less(now.read_bytes, path_cost.read_bytes),
        written_bytes=_less(now.written_bytes, path_cost.written_bytes),
    )


def _less(now: Number | None, number: Number | None) -> Number | None:
    return None if now is None else now if number is None else now - number


def _sum(values: Iterable[Number | None]) -> Number | None:
    known_values = [value for value in values if value is not None]
    return sum(known_values) if known_values else None


def _day(iso: str) -> str:
    """Return the date of a recorded time, UTC; "" where an older record has none."""
    try:
        return datetime.fromisoformat(iso).astimezone(UTC).date().isoformat()
    except ValueError:
        return ""


def _is_whole(total: PathTotal) -> bool:
    return total.runs > 0 and total.unknown_runs == 0


def _list_unknown(streaming: PathTotal, batch: PathTotal) -> Iterable[str]:
    for name, total in (("driver", streaming), ("batch run", batch)):
        if total.unknown_runs:
            reason = "an older release, executors elsewhere, or a kernel that does not show them"
            runs = count_noun(total.runs, name)
            yield f"{total.unknown_runs:,} of {runs} left no core-seconds ({reason}): no total has them."
    for name, total in (("streaming", streaming), ("batch", batch)):
        if total.core_seconds_per_million is not None and total.measured_records < FEW_RECORDS:
            figures = f"{name} has read {count_noun(total.measured_records, 'record')}"
            yield f"A process starts for seconds: while {figures}, its core-seconds a million records are no forecast."
    if streaming.runs:
        yield "What a driver used behind its newest epoch is in no record, so it is in no total."


def _list_left_out(replayed: int, waiting: int) -> Iterable[str]:
    """Yield which records are in no delay: delays are those of the others alone."""
    if replayed:
        records = count_clause(replayed, "record", "was", "were")
        yield f"{records} older than a day when the stream read them, which no delay includes."
    if waiting:
        records = count_clause(waiting, "record", "waits", "wait")
        yield f"{records} for a batch run: the delay of batch is that of the others."


def measure_costs(lake: PipelineLake, agreement: Agreement | None) -> PathCosts:
    """Return the cost of both paths under the definition in force.

    Raises:
        DefinitionError: No epoch was committed under it yet.
        LakeError: A table cannot be read.
    """
    version = versions.find_current_version(lake)
    epochs = EpochLog(version.uri).records() if version is not None and delta.exists(version.uri) else []
    if not epochs:
        msg = f"Cost of `{lake.name}`: expected an epoch under the definition in force, found none."
        raise DefinitionError(msg + f"\nHint: `{lake.pipeline.driver_command} --drain` makes one.")
    return fold(epochs, batch_runs.read_effective_runs(lake), agreement)


def find_agreement(lake: PipelineLake) -> Agreement | None:
    """Return the agreement of the current comparison of a pipeline; None if nothing was compared."""
    comparison = history.find_current_comparison(lake)
    return None if comparison is None or not comparison.is_comparable else parse_agreement(comparison.result)


def measure_if_readable(lake: PipelineLake, outcome: ComparisonOutcome) -> PathCosts | None:
    """Return the cost shown with a comparison; None if no epoch can be read: the comparison itself says why."""
    try:
        return measure_costs(lake, _find_agreement(outcome))
    except (DefinitionError, LakeError):
        return None


def measure_present(lake: PipelineLake) -> PathCosts | None:
    """Return the cost shown with the current comparison of a pipeline; None if no epoch can be read."""
    try:
        return measure_costs(lake, find_agreement(lake))
    except (DefinitionError, LakeError):
        return None


def _find_agreement(outcome: ComparisonOutcome) -> Agreement | None:
    rows, settlement = outcome.finding.rows, outcome.settlement
    if not rows.compared:
        return None
    return Agreement(
        rows=rows.compared,
        different=rows.missing + rows.extra + rows.changed,
        unexplained=outcome.finding.causes[UNEXPLAINED].rows,
        is_replay=False if settlement is None else settlement.is_replay,
        by_age=() if settlement is None else settlement.agreement,
    )


def parse_agreement(result: Mapping[str, Any]) -> Agreement | None:
    """Return the agreement in the published object of a comparison; None where it compared no row."""
    rows, settlement = result.get("rows", {}), result.get("settlement") or {}
    unexplained = result.get("causes", {}).get(UNEXPLAINED, {}).get("rows", 0)
    if not rows.get("compared"):
        return None
    return Agreement(
        rows=rows["compared"],
        different=sum(rows.get(kind, 0) for kind in ("missing", "extra", "changed")),
        unexplained=unexplained,
        is_replay=settlement.get("is_replay", False),
        by_age=tuple(decode_tree(AgreementPoint, point) for point in settlement.get("agreement", [])),
    )
