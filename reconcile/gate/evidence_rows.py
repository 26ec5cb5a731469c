"""Which recorded runs count: the unbroken row of those within policy, the one that speaks last, blocks of windows."""

from datetime import datetime, timedelta
from typing import NamedTuple

from cutover import recorded_times
from cutover.reconcile.gate.gate_values import EvidenceRun, LostWindows
from cutover.reconcile.result.finding import Verdict

EXPIRES_AFTER = timedelta(days=7)
"""Evidence older than this says nothing about the pipeline as it runs today."""

_DIVERGED = (str(Verdict.DIVERGED), str(Verdict.ACCEPTED))  # an accepted difference is one: nothing explains it


def consecutive(
    runs: tuple[EvidenceRun, ...], now: datetime, losses: tuple[LostWindows, ...] = ()
) -> tuple[EvidenceRun, ...]:
    """Return the newest unbroken row of runs that count: within policy, not expired, each with a newer cut.

    A run that is not within policy, could not compare, or speaks for windows that a loss touched ends the row at its
    cut: no run at an older cut counts, and of those at the same cut none that was recorded before it. A run whose cut
    is not ahead of those that were first made before it, or one over a range, adds nothing: an older cut that is
    compared again takes nothing away, and one that is compared late for the first time is no evidence.

    Args:
        runs: In the order in which they were recorded last.
        now: For what is expired.
        losses: That somebody accepted.
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
    """A run, and where it stands: by its cut, then by when it was recorded."""

    at: tuple[int, int]
    run: EvidenceRun


def _places(runs: tuple[EvidenceRun, ...]) -> list[_Place]:
    return [_Place((run.epoch, number), run) for number, run in enumerate(runs)]


def newest(runs: tuple[EvidenceRun, ...]) -> EvidenceRun | None:
    """Return the run that speaks last: at the newest cut, of those the last that was recorded; none over a range.

    One over a range that is not within policy speaks too.
    """
    spoken = [place for place in _places(runs) if place.run.whole or not place.run.within]
    return max(spoken, key=lambda place: place.at).run if spoken else None


def is_ahead(run: EvidenceRun, before: EvidenceRun) -> bool:
    """Return whether a cut holds records that another does not: a later epoch, and one that read something."""
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
    """Return for each block of windows whether it diverged, in the order in which they were first compared.

    A block is the windows that a comparison of all of them at a newer cut adds. A later look that adds none, or is at
    the same or an older cut, or at a range, makes no block: what it finds is held against the newest one. A run that
    could not compare leaves its windows to the next.
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
