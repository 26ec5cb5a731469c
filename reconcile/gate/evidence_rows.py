"""Eligible runs of the history: the consecutive ones within policy, the latest one, and blocks of windows."""

from datetime import datetime, timedelta
from typing import NamedTuple

from cutover import recorded_times
from cutover.reconcile.gate.gate_values import EvidenceRun, LostWindows
from cutover.reconcile.result.finding import Verdict

EXPIRES_AFTER = timedelta(days=7)
"""Maximum age of an eligible run."""

_DIVERGED = (str(Verdict.DIVERGED), str(Verdict.ACCEPTED))  # an accepted difference is one: nothing explains it


def consecutive(
    runs: tuple[EvidenceRun, ...], now: datetime, losses: tuple[LostWindows, ...] = ()
) -> tuple[EvidenceRun, ...]:
    """Select the latest consecutive eligible runs: within policy, not expired, each at a newer cut.

    A run that is not within policy, could not compare, or covers windows that a loss affects interrupts the sequence:
    no run at an older cut is eligible, and no run at the same cut that was recorded before it. A run whose cut is not
    ahead of the runs that were first recorded before it, or one over a range, is not eligible itself: comparing an
    older cut again removes no evidence, and comparing it late for the first time adds none.

    Args:
        runs: In the order in which they were recorded last.
        now: By the clock of this host.
        losses: Accepted losses.
    """
    bad = [place for place in _places(runs) if not place.run.within or any(lost.touches(place.run) for lost in losses)]
    end = max((place.at for place in bad), default=(-2, -1))
    earliest = find_earliest_times(runs, now)
    row: list[EvidenceRun] = []
    for place in sorted(_places(runs), key=lambda place: place.run.begun):
        run = place.run
        at = earliest[run.run_id]
        is_fresh = at is not None and now - at <= EXPIRES_AFTER
        if place.at > end and is_fresh and run.whole and (not row or is_ahead(run, row[-1])):
            row.append(run)
    return tuple(row)


class _Place(NamedTuple):
    """Run with its position: epoch of its cut, then order of recording."""

    at: tuple[int, int]
    run: EvidenceRun


def _places(runs: tuple[EvidenceRun, ...]) -> list[_Place]:
    return [_Place((run.epoch, number), run) for number, run in enumerate(runs)]


def newest(runs: tuple[EvidenceRun, ...]) -> EvidenceRun | None:
    """Find the latest run: at the newest cut, and of several there the one that was recorded last.

    A run over a range is considered only if it is not within policy.
    """
    considered = [place for place in _places(runs) if place.run.whole or not place.run.within]
    return max(considered, key=lambda place: place.at).run if considered else None


def is_ahead(run: EvidenceRun, before: EvidenceRun) -> bool:
    """Return whether a cut contains records that another one lacks: its epoch is later, and read some."""
    read_more = run.end is None or before.end is None or run.end > before.end
    return run.epoch > before.epoch and read_more


def find_earliest_times(runs: tuple[EvidenceRun, ...], now: datetime) -> dict[str, datetime | None]:
    """Return the earliest time at which each run can have been made, by its id; None: nothing limits its age.

    Args:
        runs: In the order in which they were recorded last.
        now: By the clock of this host.
    """
    times = recorded_times.find_earliest_times([run.at for run in runs], now, [run.inputs for run in runs])
    return dict(zip((run.run_id for run in runs), times, strict=True))


def _adds_windows(run: EvidenceRun, before: EvidenceRun) -> bool:
    newest_window, known = run.newest_window, before.newest_window
    return is_ahead(run, before) and newest_window is not None and (known is None or newest_window > known)


def list_blocks(runs: tuple[EvidenceRun, ...]) -> tuple[bool, ...]:
    """List for each block of windows whether it diverged, in the order in which they were first compared.

    A block is the set of windows that a comparison of all windows at a newer cut adds. A comparison that adds none, at
    the same or an older cut, or over a range, makes no block: a divergence that it finds counts against the latest
    block. The windows of a run that could not compare belong to the next block.
    """
    blocks: list[bool] = []
    last: EvidenceRun | None = None
    for run in sorted(runs, key=lambda run: run.begun):
        diverged = run.outcome.startswith(_DIVERGED)
        if run.whole and run.outcome != Verdict.NOT_COMPARABLE and (last is None or _adds_windows(run, last)):
            blocks.append(diverged)
            last = run
        elif diverged:
            blocks = [*blocks[:-1], True]
    return tuple(blocks)
