"""From the records of epochs and batch runs to what both paths cost. Pure: what was not recorded stays unknown."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeVar

from cutover.lake.batch_runs import BatchRun
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.path_cost import PathCost
from cutover.reconcile.cost import delays, nines
from cutover.reconcile.result.cost import Agreement, DayCost, PathCosts, PathTotal
from cutover.reconcile.result.text import count_noun
from cutover.recorded_times import make_monotonic

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
    live = delays.select_live(ordered)
    total, waiting = sum_costs(batch), delays.measure_batch(live, finished)
    return PathCosts(
        streaming=sum_costs(streaming),
        batch=total,
        days=_fold_days(streaming, batch, live, finished),
        streaming_delay=delays.measure_stream(live),
        batch_delay=waiting,
        replayed=delays.count_replayed(ordered),
        agreement=agreement,
        nines=() if agreement is None else nines.price(agreement, total.core_seconds if _is_whole(total) else None),
        notes=(
            *_list_unknown(sum_costs(streaming), total),
            *_list_left_out(delays.count_replayed(ordered), waiting.waiting),
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
    read, _ = delays.list_batch_waits(live, finished)
    waits = _group((_day(run.finished), (seconds, records)) for run, seconds, records in read)
    days = sorted({day for grouped in by_day for day in grouped if day})[-DAYS_AT_MOST:]
    return tuple(
        DayCost(
            day=day,
            streaming=sum_costs(by_day[0].get(day, [])),
            batch=sum_costs(by_day[1].get(day, [])),
            streaming_delay=delays.measure_stream(epochs.get(day, [])),
            batch_delay=delays.summarize_waits(waits.get(day, [])),
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
            figures = f"{name} has read {total.measured_records:,} records"
            yield f"A process starts for seconds: while {figures}, its core-seconds a million records are no forecast."
    if streaming.runs:
        yield "What a driver used behind its newest epoch is in no record, so it is in no total."


def _list_left_out(replayed: int, waiting: int) -> Iterable[str]:
    """Yield which records are in no delay: delays are those of the others alone."""
    if replayed:
        yield f"{replayed:,} records were older than a day when the stream read them: they are in no delay."
    if waiting:
        yield f"{waiting:,} records wait for a batch run: the delay of batch is that of the others."
