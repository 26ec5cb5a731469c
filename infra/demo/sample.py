"""The demonstration's input: which stretch of the sample is not in the topic yet, and sending it."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from cutover.errors import DefinitionError
from cutover.infra.demo.send import run, sent_runs
from cutover.records.sending.produced import ProducedRun
from cutover.settings import Settings
from cutover.timestamps import from_micros, to_micros

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "nycflights13.csv.gz"
YEAR = 2013
MOST_PARTS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplePart:
    """A stretch of the sample's log time, `[start, end)` in microseconds; None: its beginning, its end."""

    start: int | None = None
    end: int | None = None


def parts(count: int) -> tuple[SamplePart, ...]:
    """Cut the year into `count` stretches of whole months.

    Raises:
        DefinitionError: There are not that many months.
    """
    if not 1 <= count <= MOST_PARTS:
        msg = f"Option `--parts`: expected 1 to {MOST_PARTS}, got {count}."
        raise DefinitionError(msg)
    months = (datetime(YEAR, 1 + MOST_PARTS * i // count, 1, tzinfo=UTC) for i in range(1, count))
    edges = [None, *map(to_micros, months), None]
    return tuple(SamplePart(start=start, end=end) for start, end in pairwise(edges))


def find_missing(part: SamplePart, produced_runs: Iterable[ProducedRun]) -> SamplePart | None:
    """Return what of a stretch was not sent yet; None if all of it was. Parts go in order, so only the end can be left.

    Args:
        part: The stretch.
        produced_runs: Runs of `produce` with this very file.
    """
    remaining = part
    for entry in sorted(produced_runs, key=lambda e: e.start or 0):
        has_begun = entry.start is None or (remaining.start is not None and entry.start <= remaining.start)
        if not (has_begun and entry.finished):
            continue
        if entry.end is None or (remaining.end is not None and entry.end >= remaining.end):
            return None
        if remaining.start is None or entry.end > remaining.start:
            remaining = replace(remaining, start=entry.end)
    return remaining


def send(settings: Settings, pipeline: str, topic: str, part: SamplePart) -> int:
    """Send what of a stretch is not in the topic yet; return the number of commands that it took, 0 or 1.

    Raises:
        DefinitionError: `cutover produce` refused; it has said why.
        LogError: The broker does not answer.
    """
    missing = find_missing(part, sent_runs(settings, topic, SAMPLE))
    if missing is None:
        sys.stdout.write(f"Topic `{topic}` holds the sample already.\n")
        return 0
    bounds = (("--from", missing.start), ("--to", missing.end))
    words = [word for name, at in bounds if at is not None for word in (name, _iso(at))]
    run("produce", str(SAMPLE), "--pipeline", pipeline, *words)
    return 1


def _iso(micros: int) -> str:
    return from_micros(micros).isoformat()
