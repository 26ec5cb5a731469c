"""Records that compaction took from inside the log: batch publishes nothing as if what is left were all."""

from dataclasses import replace

import pytest

from cutover.batch.recompute import run
from cutover.clock import SystemClock
from cutover.errors import LogError
from cutover.lake.batch_runs import Incomplete, runs
from cutover.lake.control import control_tables, losses, versions
from tests.integration.batch.lab import BASE, HOUR, Lab
from tests.support.log import compacted
from tests.support.log.losses import LOSS


def micros(hour: int) -> int:
    return (BASE + hour * HOUR) * 1_000_000


def test_batch_over_records_that_are_gone_ends_and_goes_on_behind_a_recorded_loss(lab: Lab) -> None:
    compacted.roll_segments(lab.settings, lab.topic)
    for hour in range(4):
        lab.send((0, hour * HOUR + 10, "AA", 1), (0, hour * HOUR + 20, "AA", 2), (1, hour * HOUR + 30, "AA", 4))
    compacted.compact(lab.settings, lab.topic, least=6)
    compacted.keep_all(lab.settings, lab.topic)
    newest = lab.commit_epoch(watermark=6 * HOUR)

    for anew in (False, True):
        with pytest.raises(
            LogError, match=f"Topic {lab.topic}, partition 0: [0-9] of the offsets 0 to [0-9]"
        ) as refused:
            run(lab.settings, lab.pipeline, anew=anew)
        assert refused.value.runbook == "LogDataLost"
        assert "accept-loss" in refused.value.text
    assert runs(lab.settings, lab.pipeline) == []

    version = versions.current(lab.settings, lab.pipeline)
    assert version is not None
    inside = replace(
        LOSS,
        pipeline=lab.pipeline.name,
        result_fingerprint=version.result_fingerprint,
        stream_version=version.number,
        epoch=1,
        kind="inside",
        topic=lab.topic,
        topic_id=newest.topic_id,
        first=0,
        windows_from=micros(0),
        windows_to=micros(3),
        at=SystemClock().now(),
    )
    rows = [replace(inside, partition=p, next=newest.end[p]) for p in (0, 1)]
    losses.record(lab.settings, rows, turn=control_tables.next_turn(lab.settings, "losses", lab.pipeline.name))

    done = run(lab.settings, lab.pipeline)

    assert done is not None
    assert done.incomplete == (Incomplete(window_start=micros(0), window_end=micros(3), reason="lost"),)
    assert lab.table(done, "delay") == [(3, 7)]


def test_compacted_topic_is_refused_before_it_has_lost_a_record(lab: Lab) -> None:
    lab.send((0, 10, "AA", 1))
    lab.commit_epoch(watermark=HOUR)
    compacted.begin(lab.settings, lab.topic)

    with pytest.raises(LogError, match="policy `delete`, got `compact`"):
        run(lab.settings, lab.pipeline)

    assert runs(lab.settings, lab.pipeline) == []
