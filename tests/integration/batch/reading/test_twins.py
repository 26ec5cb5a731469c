"""Records with ids: of those with the same id and event time the lowest position counts, whichever run scanned them."""

import json
from dataclasses import replace

import pytest

from cutover.batch.recompute import recompute_windows
from cutover.lake.batch_runs import BatchRun
from tests.integration.batch.lab import BASE, Lab


@pytest.fixture
def ids(lab: Lab) -> Lab:
    return Lab(lab.settings, replace(lab.pipeline, source=replace(lab.pipeline.source, record_id="seq")))


def send(lab: Lab, partition: int, seq: int, delay: int, *, second: int = 10, carrier: str = "AA") -> None:
    event = {"seq": seq, "carrier": carrier, "delay": delay, "event_time": BASE + second}
    lab.send_raw(partition, json.dumps(event).encode())


def duplicates(lab: Lab, batch_run: BatchRun) -> list[tuple[str, int, int, int]]:
    rows = lab.rows("batch_ledger", batch_run.ledger_version)
    return sorted(
        (row["_run"], p["partition"], p["offset"], p["id"])
        for row in rows
        if row["_class"] == "duplicate"
        for p in row["_positions"]
    )


@pytest.mark.quick
def test_twins_count_once_across_partitions_and_runs(ids: Lab) -> None:
    send(ids, 1, 7, 5)
    send(ids, 1, 7, 5)  # sent twice
    send(ids, 1, 7, 9, second=20)  # the same id at another time is another record
    send(ids, 0, 8, 1)
    send(ids, 0, 9, 1, carrier="XX")  # filtered: registers no id
    send(ids, 1, 9, 2)
    ids.commit_epoch(watermark=3_600)
    first_batch_run = recompute_windows(ids.lake)
    assert first_batch_run is not None
    assert ids.table(first_batch_run, "carrier", "flights", "delay") == [(0, "AA", 4, 5 + 9 + 1 + 2)]
    assert duplicates(ids, first_batch_run) == [(first_batch_run.run_id, 1, 1, 7)]
    assert (first_batch_run.counts["duplicate"], first_batch_run.id_conflicts) == (1, 1)

    send(ids, 0, 7, 6)  # its twins in partition 1 lie higher
    ids.commit_epoch(watermark=3_600)
    second = recompute_windows(ids.lake)

    assert second is not None
    assert ids.table(second, "carrier", "flights", "delay") == [(0, "AA", 4, 6 + 9 + 1 + 2)]
    of_second = [place for name, *place in duplicates(ids, second) if name == second.run_id]
    assert of_second == [[1, 0, 7], [1, 1, 7]]
