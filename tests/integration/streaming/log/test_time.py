"""Time that moves while nothing arrives: an idle partition leaves the minimum, by an epoch without data."""

from datetime import UTC, datetime

import pytest

from cutover.definition import Lateness
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from cutover.streaming.process import heartbeat
from tests.integration.streaming import rig
from tests.integration.streaming.conftest import Start
from tests.integration.streaming.rig import Event
from tests.support.suite.until import until

FAST = [Event(id=i, minute=i, partition=0) for i in range(60)]
SLOW = [Event(id=100 + i, minute=i, partition=1) for i in range(10)]
LATENESS = Lateness(out_of_orderness="5 minutes", idle_after="1 minute")


class HandClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, tz=UTC)

    def monotonic(self) -> float:
        return self.seconds


@pytest.mark.quick
def test_partition_with_nothing_unread_leaves_the_watermark_after_its_idle_time(
    quick: Settings, topic: str, start: Start
) -> None:
    pipeline = rig.pipeline(topic, cap=1000, lateness=LATENESS)
    rig.send(quick, topic, [*FAST, *SLOW])
    clock = HandClock()
    lake = PipelineLake(quick, pipeline)
    running = start(lake, clock=clock)

    def epochs() -> int:
        beat = heartbeat.find_heartbeat(quick, pipeline.name)
        return 0 if beat is None or beat.run_id == "" or beat.epoch is None else beat.epoch + 1

    until(lambda: epochs() >= 1)
    clock.seconds += 30
    rig.send(quick, topic, [Event(id=500, minute=61, partition=0)])
    until(lambda: epochs() >= 2)
    clock.seconds += 40  # 70 s after partition 1 was last read, 40 s after partition 0
    until(lambda: epochs() >= 3)
    clock.seconds += 3600
    running.stop()
    held_record, still_held, idle = (rig.records(lake))[:3]

    assert running.failure is None
    assert rig.NOON + 4 * rig.MINUTE == held_record.watermark_after == still_held.watermark_after
    assert (idle.tick, idle.idle, idle.watermark_after) == (True, (1,), rig.NOON + 56 * rig.MINUTE)
    assert rig.expect_cells([*FAST, *SLOW, Event(id=500, minute=61)]) == rig.count_by_cell(lake)
