"""What a driver asks of the log between two epochs, and what it takes from the answer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from cutover.errors import LogError
from cutover.lake.integrity import complete_read
from cutover.log.cut import LogEnd, LogId
from cutover.log.mark import Mark
from cutover.streaming.microbatch import continuity
from cutover.streaming.microbatch.aggregate import EpochPlan
from cutover.streaming.microbatch.continuity import Continuity
from cutover.streaming.process.health import LogSnapshot

LOG = LogId(cluster_id="C", topic="t", topic_id="A")


class HeldLog:
    """Reads marks as `MarkReader` does: of each partition the record before its end."""

    def __init__(self, *_: object) -> None:
        pass

    def last(self, ranges: Mapping[int, tuple[int, int]]) -> dict[int, tuple[Mark, ...]]:
        return {p: (Mark(end - 1, start, "same"),) for p, (start, end) in ranges.items()}


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what a driver knows of its log before its first epoch; its client and its heartbeat are stand-ins."""
    monkeypatch.setattr(continuity, "MarkReader", HeldLog)
    context = Mock(place=tmp_path)
    context.clock.monotonic.return_value = 0.0
    context.client.config.return_value = {"cleanup.policy": "delete"}
    made: Any = Continuity(context, Mock(newest=None), LOG)
    made.health = Mock()
    made._context.client.cuts = 0
    made._context.client.latest.return_value = {0: 8}
    made._context.client.newest_times.return_value = {0: 100, 1: 200}
    return made


def ends(*offsets: int) -> dict[int, LogEnd]:
    return {p: LogEnd(offset=offset, leader_epoch=1) for p, offset in enumerate(offsets)}


def snapshot(known: Any, at: Mapping[int, LogEnd], read: Mapping[int, int]) -> LogSnapshot:
    known._context.client.log_ends.return_value = at
    assert known.read_ends(read) == at
    log_snapshot: LogSnapshot = known.health.note_look.call_args.args[0]
    return log_snapshot


@pytest.mark.parametrize(
    ("read", "is_behind"),
    [({0: 9, 1: 4}, False), ({0: 8, 1: 4}, True), ({0: 9}, True), ({0: 10, 1: 4}, False)],
    ids=["at the end", "one behind", "a new partition", "beyond"],
)
def test_what_is_stable_is_asked_where_something_is_unread(
    known: Any, read: Mapping[int, int], *, is_behind: bool
) -> None:
    stable = {0: 8} if is_behind else {}

    assert snapshot(known, ends(9, 4), read) == LogSnapshot(read=read, high={0: 9, 1: 4}, stable=stable, newest={})
    assert known._context.client.latest.called is is_behind


def test_a_new_partition_that_is_empty_is_not_behind(known: Any) -> None:
    assert snapshot(known, ends(9, 0), {0: 9}).stable == {}
    assert snapshot(known, ends(9, 1), {0: 9}).stable == {0: 8}


def test_the_newest_times_are_those_of_partitions_that_grew_since_the_look_before(known: Any) -> None:
    looks = [snapshot(known, at, {0: 9, 1: 9}).newest for at in (ends(9, 4), ends(9, 4), ends(9, 5), ends(9, 5))]

    assert looks == [{}, {}, {1: 200}, {}]
    assert known._context.client.newest_times.call_count == 1


def test_an_end_that_an_epoch_saw_later_is_kept(known: Any) -> None:
    known.high = {0: 12, 1: 3}

    known.note_ends(ends(9, 4, 0), prove=False)

    assert known.high == {0: 12, 1: 4, 2: 0}


@pytest.mark.parametrize(
    ("prove", "leader", "asked"), [(True, 1, 0), (True, 2, 1), (False, 2, 0)], ids=["same", "other", "not to prove"]
)
def test_the_log_is_proven_again_where_something_may_have_changed_it(
    known: Any, prove: bool, leader: int, asked: int
) -> None:
    known.prove(ends(9))

    end = {0: LogEnd(offset=9, leader_epoch=leader)}
    known._context.client.log_ends.return_value = end

    known.note_ends(end, prove=prove)

    assert known._context.client.log_ends.call_count == asked


def test_marks_of_a_new_partition_are_looked_for_from_zero_on(known: Any) -> None:
    plan = EpochPlan(epoch=3, start={0: 5}, end={0: 9, 1: 3}, clipped=False, watermark=None)

    assert known.mark(plan).result() == {0: (Mark(8, 5, "same"),), 1: (Mark(2, 0, "same"),)}


@pytest.mark.parametrize(("seconds", "is_read"), [(9.9, False), (10.0, True)])
def test_the_clean_up_policy_is_read_again_every_ten_seconds(known: Any, seconds: float, *, is_read: bool) -> None:
    known._context.clock.monotonic.return_value = seconds

    snapshot(known, ends(9, 4), {0: 9, 1: 4})

    assert known._context.client.config.called is is_read


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_topic_that_is_compacted_by_now_stops_the_driver(known: Any, policy: str) -> None:
    known._context.clock.monotonic.return_value = 10.0
    known._context.client.config.return_value = {"cleanup.policy": policy}

    with pytest.raises(LogError, match=f"Topic t: expected cleanup.policy `delete`, got `{policy}`") as refused:
        known.read_ends({0: 9, 1: 4})

    assert refused.value.runbook == "LogDataLost"


@pytest.mark.parametrize(("records", "is_checked"), [(7, False), (6, True), (8, True), (0, True)])
def test_epoch_with_as_many_records_as_offsets_needs_no_headers(
    known: Any, monkeypatch: pytest.MonkeyPatch, records: int, *, is_checked: bool
) -> None:
    find = Mock(return_value=())
    monkeypatch.setattr(complete_read, "find_unexplained", find)
    plan = EpochPlan(epoch=3, start={0: 5, 1: 5}, end={0: 9, 1: 8}, clipped=False, watermark=None)

    known.check_complete(Mock(), plan, records)

    assert find.called is is_checked
