"""Sessions in batch, over a real log: read again where a late row joins them, frozen where the log has forgotten."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from cutover.batch.recompute import recompute_windows
from cutover.definition import Lateness, Sessions
from cutover.errors import DefinitionError
from cutover.lake.batch_runs import BatchRun
from cutover.pipeline_lake import PipelineLake
from cutover.records.parsing.limits import MIN_MICROS
from tests.integration.batch.lab import BASE, HOUR, Lab, rows_of
from tests.integration.batch.reading.test_retention import expire

GAP = 600
Session = tuple[int, int, int, int]  # first row and end (seconds after BASE), records, sum


def with_sessions(lab: Lab) -> Lab:
    lab.pipeline = replace(lab.pipeline, window=Sessions("10 minutes"), lateness=Lateness(max_ahead="1 hour"))
    return lab


def run_at(lab: Lab, watermark: int) -> tuple[BatchRun, list[Session]]:
    lab.commit_epoch(watermark=watermark)
    batch_run = recompute_windows(lab.lake)
    assert batch_run is not None
    rows = rows_of(lab.lake.batch_uri(), batch_run.batch_version)
    times = [tuple(round(row[name].timestamp()) - BASE for name in ("window_start", "window_end")) for row in rows]
    return batch_run, sorted((*at, row["flights"], int(row["delay"])) for at, row in zip(times, rows, strict=True))


def test_sessions_run_after_run(lab: Lab) -> None:
    with_sessions(lab).send((0, 0, "AA", 1), (1, 2 * GAP, "AA", 2), (0, 10 * GAP, "AA", 4))
    first_run, apart = run_at(lab, 4 * GAP + 1)
    idle, unchanged = run_at(lab, 4 * GAP + 1)
    lab.send((1, GAP, "AA", 8))  # exactly a gap from both: the very rows of the first scan are needed again
    bridging, joined = run_at(lab, 20 * GAP)
    expire(lab, 0, 2)
    lab.send((1, 3 * GAP, "AA", 16), (1, 30 * GAP, "AA", 32))
    frozen, remaining = run_at(lab, 40 * GAP)

    assert apart == [(0, GAP, 1, 1), (2 * GAP, 3 * GAP, 1, 2)]
    assert (unchanged, idle.computed, idle.batch_version) == (apart, (), first_run.batch_version)
    assert joined == [(0, 3 * GAP, 3, 1 + 8 + 2), (10 * GAP, 11 * GAP, 1, 4)]
    assert bridging.incomplete == ()
    # A part of the first session has left the log: it keeps its row, and is marked. Later sessions continue.
    assert [(entry.window_start, entry.reason) for entry in frozen.incomplete] == [(MIN_MICROS, "expired")]
    assert remaining == [*joined, (30 * GAP, 31 * GAP, 1, 32)]


def test_a_range_is_refused(lab: Lab) -> None:
    day = datetime(2013, 1, 1, tzinfo=UTC)

    with pytest.raises(DefinitionError, match=r"Range of windows .* expected none with sessions"):
        recompute_windows(
            PipelineLake(with_sessions(lab).settings, lab.pipeline), start=day, end=day + (HOUR * day.resolution)
        )
