"""A driver that is killed, as a process, before, in and behind its epochs: its panes add up to its result."""

import signal
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

from cutover.definition import Accumulation, EachEpoch, Pipeline, Repeat
from cutover.lake.serving import views
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from tests.faults.running.child import Child
from tests.faults.running.task import Place, Task
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event

EVENTS = [Event(id=i, minute=i / 3, key="abc"[i % 3], partition=i % 2) for i in range(200)]
KILLS: tuple[Place, ...] = (("epoch.aggregated", 1), ("epoch.committed", 2))


def definition(topic: str) -> Pipeline:
    return replace(
        rig.pipeline(topic, cap=20), trigger=Repeat(EachEpoch()), accumulation=Accumulation.RETRACTING, name="clicks"
    )


def test_panes_of_a_driver_that_is_killed_again_and_again_come_once(
    kafka_settings: Settings, topic_name: str, tmp_path: Path
) -> None:
    settings = rig.fast(kafka_settings)
    rig.make_topic(settings, topic_name, partitions=2)
    rig.send(settings, topic_name, EVENTS)
    make = partial(definition, topic_name)
    for number, place in enumerate(KILLS):
        task = Task(role="stream", settings=settings, make=make, trace=tmp_path / f"{number}", block=place)
        child = Child(task)
        try:
            child.marker()
        finally:
            ended = child.kill()
        assert ended == -signal.SIGKILL

    last_child = Child(Task(role="stream", settings=settings, make=make, trace=tmp_path / "last", until="drain"))

    assert last_child.wait() == 0
    with views.open_views(PipelineLake(settings, make())) as connection:
        panes = connection.execute(
            "SELECT epoch_us(window_start), k, _pane, _index, ids::BIGINT, _n FROM panes ORDER BY _epoch, _order"
        ).fetchall()
    standing: dict[rig.Cell, tuple[int, int]] = {}
    for start, key, kind, _, ids, records in panes:
        if kind == "retraction":
            assert standing.pop((start, key)) == (records, ids)
        else:
            assert (start, key) not in standing
            standing[start, key] = (records, ids)
    expected = rig.count_by_cell(PipelineLake(settings, make()), classes=["accepted"])
    assert standing == {cell: (records, ids) for cell, (records, ids, _) in expected.items()}
    assert set(Counter(pane[:4] for pane in panes).values()) == {1}
    assert len(panes) > 2 * len(standing)
    assert rig.gaps(rig.records(PipelineLake(settings, make()))) == []
