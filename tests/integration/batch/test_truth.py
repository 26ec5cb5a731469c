import random
from dataclasses import replace

import pytest

from cutover.batch.recompute import recompute_windows
from cutover.definition import Daily, Fixed
from cutover.definition.windows.kinds import SlidingWindows
from cutover.definition.windows.window_fn import AlignedWindowFn
from cutover.log.kafka import LogClient
from cutover.records import reference
from cutover.records.classes import Class
from cutover.timestamps import MICROSECONDS
from tests.integration.batch.lab import BASE, HOUR, PARTITIONS, Lab

SLIDING = SlidingWindows(size=MICROSECONDS["hour"], every=20 * MICROSECONDS["minute"])


def send_some(lab: Lab, draw: random.Random, progress: int) -> None:
    """Send records around a time: out of order, some far behind, some filtered, dated ahead, broken."""
    for ahead in (0, 7_200, 0):
        rows = [
            (
                draw.randrange(PARTITIONS),
                max(0, progress + draw.randint(-2 * HOUR, HOUR)),
                draw.choice(["AA", "UA", None, "XX"]),
                draw.choice([None, draw.randint(-30, 400)]),
            )
            for _ in range(60)
        ]
        lab.send(*rows, ahead=ahead)
    lab.send_raw(draw.randrange(PARTITIONS), draw.choice([b"{", b"", b"[]", b"\xff", b'{"seq": "1"}']))


@pytest.mark.parametrize(
    "window", [Fixed(hours=1), SLIDING, Fixed(hours=1, offset="25 minutes"), Daily(zone="Asia/Kolkata")], ids=str
)
def test_runs_at_several_cuts_end_at_the_truth_of_the_whole_log(lab: Lab, window: AlignedWindowFn) -> None:
    lab.pipeline = replace(lab.pipeline, window=window)
    draw = random.Random(7)  # noqa: S311 -- a test's story, the same each time
    for step in range(3):
        send_some(lab, draw, step * HOUR)
        lab.commit_epoch(watermark=99 * HOUR if step == 2 else step * HOUR)
        batch_run = recompute_windows(lab.lake)

    assert batch_run is not None
    client = LogClient(lab.settings)
    log = [record for p, end in batch_run.cut.items() for record in client.read_range(lab.topic, p, 0, end)]
    truth = reference.compute_reference(lab.pipeline, log)
    expected = [
        ((start / 1e6 - BASE) // HOUR, *key, row.n, *row.measures.values())
        for (start, _, key), row in truth.rows.items()
    ]
    batch_rows = lab.table(batch_run, "carrier", "_n", *lab.pipeline.measures)
    assert sorted(batch_rows, key=str) == sorted(expected, key=str)


def test_the_ledger_of_several_scans_is_that_of_the_whole_log(lab: Lab) -> None:
    draw = random.Random(11)  # noqa: S311 -- a test's story, the same each time
    for _ in range(2):
        send_some(lab, draw, HOUR)
        lab.commit_epoch(watermark=HOUR)
        batch_run = recompute_windows(lab.lake)

    assert batch_run is not None
    client = LogClient(lab.settings)
    log = [record for p, end in batch_run.cut.items() for record in client.read_range(lab.topic, p, 0, end)]
    truth = reference.compute_reference(lab.pipeline, log)
    rows = lab.rows("batch_ledger", batch_run.ledger_version)
    ledger_rows = [
        (row["_class"], p["partition"], p["offset"], p["reason"]) for row in rows for p in row["_positions"] or ()
    ]
    assert sorted(ledger_rows, key=str) == sorted(
        ((r.cls, r.partition, r.offset, r.reason) for r in truth.ledger), key=str
    )
    assert sum(row["_n"] for row in rows if row["_class"] == "filtered") == truth.counts[Class.FILTERED]
