"""Eligible runs of the history: the consecutive ones within policy, the latest one, and blocks of windows."""

from datetime import datetime, timedelta
from typing import NamedTuple

from cutover import recorded_times
from cutover.reconcile.gate.gate_values import EvidenceRun, LostWindows
from cutover.reconcile.result.finding import Verdict

EXPIRES_AFTER = timedelta(days=7)
"""Maximum age of an eligible run."""

_DIVERGED = (str(Verdict.DIVERGED), str(Verdict.ACCEPTED))  # an accepted difference is one: nothing explains it


def select_consecutive_runs(
    runs: tuple[EvidenceRun, ...], now: datetime, losses: tuple[LostWindows, ...] = ()
) -> tuple[EvidenceRun, ...]:
    """Select the latest consecutive eligible runs: within policy, not expired, each at a newer cut.

    A run that is not within policy, could not compare, or covers windows that a loss affects interrupts the sequence:
    no run at an older cut is eligible, and no run at the same cut that was recorded before it. A run whose cut is not
    ahead of the runs that were first recorded before it, or one over a range, is not eligible itself: comparing an
    older cut again removes no evidence, and comparing it late for the first time adds none.

    Args:
        runs: In the order in which they were last recorded.
        now: By the clock of this host.
        losses: Accepted losses.
    """
    interrupting = [
        place
        for place in _list_places(runs)
        if not place.run.is_within_policy or any(loss.touches(place.run) for loss in losses)
    ]
    last_interruption = max((place.at for place in interrupting), default=(-2, -1))
    earliest = find_earliest_times(runs, now)
    consecutive_runs: list[EvidenceRun] = []
    for place in sorted(_list_places(runs), key=lambda place: place.run.first_sequence):
        run = place.run
        at = earliest[run.run_id]
        is_fresh = at is not None and now - at <= EXPIRES_AFTER
        is_candidate = place.at > last_interruption and is_fresh and run.covers_all_windows
        if is_candidate and (not consecutive_runs or is_newer_cut(run, consecutive_runs[-1])):
            consecutive_runs.append(run)
    return tuple(consecutive_runs)


class _Place(NamedTuple):
    """Run with its position: epoch of its cut, then order of recording."""

    at: tuple[int, int]
    run: EvidenceRun


def _list_places(runs: tuple[EvidenceRun, ...]) -> list[_Place]:
    return [_Place((run.epoch, number), run) for number, run in enumerate(runs)]


def find_latest_run(runs: tuple[EvidenceRun, ...]) -> EvidenceRun | None:
    """Find the latest run: at the newest cut, and of several at that cut the one that was recorded last.

    A run over a range is considered only if it is not within policy.
    """
    candidates = [
        place for place in _list_places(runs) if place.run.covers_all_windows or not place.run.is_within_policy
    ]
    return max(candidates, key=lambda place: place.at).run if candidates else None


def is_newer_cut(run: EvidenceRun, other: EvidenceRun) -> bool:
    """Return whether a cut contains records that another cut lacks: a later epoch, and higher offsets if known."""
    has_more_records = run.end is None or other.end is None or run.end > other.end
    return run.epoch > other.epoch and has_more_records


def find_earliest_times(runs: tuple[EvidenceRun, ...], now: datetime) -> dict[str, datetime | None]:
    """Return the earliest possible time of each run, by its id; None: its age is unknown.

    Args:
        runs: In the order in which they were last recorded.
        now: By the clock of this host.
    """
    times = recorded_times.find_earliest_times([run.at for run in runs], now, [run.inputs for run in runs])
    return dict(zip((run.run_id for run in runs), times, strict=True))


def _adds_windows(run: EvidenceRun, other: EvidenceRun) -> bool:
    newest_window, compared_until = run.newest_window, other.newest_window
    has_newer = newest_window is not None and (compared_until is None or newest_window > compared_until)
    return is_newer_cut(run, other) and has_newer


def list_blocks(runs: tuple[EvidenceRun, ...]) -> tuple[bool, ...]:
    """List for each block of windows whether it diverged, in the order in which they were first compared.

    A block is the set of windows that a comparison of all windows at a newer cut adds. A comparison that adds none, at
    the same or an older cut, or over a range, makes no block: a divergence that it finds counts against the latest
    block. The windows of a run that could not compare belong to the next block.
    """
    blocks: list[bool] = []
    block_run: EvidenceRun | None = None  # the run that added the latest block
    for run in sorted(runs, key=lambda run: run.first_sequence):
        diverged = run.outcome.startswith(_DIVERGED)
        is_comparable = run.covers_all_windows and run.outcome != Verdict.NOT_COMPARABLE
        if is_comparable and (block_run is None or _adds_windows(run, block_run)):
            blocks.append(diverged)
            block_run = run
        elif diverged:
            blocks = [*blocks[:-1], True]
    return tuple(blocks)
