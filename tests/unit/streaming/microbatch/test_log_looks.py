"""Requests of a driver to the log between two epochs, and the observations it derives."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from cutover.errors import LogError
from cutover.lake.integrity import complete_read
from cutover.log.cut import LogEnd, LogId, Mark
from cutover.streaming.microbatch import continuity
from cutover.streaming.microbatch.aggregate import EpochPlan
from cutover.streaming.microbatch.continuity import Continuity
from cutover.streaming.process.context import LogSnapshot

LOG = LogId(cluster_id="C", topic="t", topic_id="A")


class HeldLog:
    """Fake `MarkReader`, which reads the last record of each partition before its end."""

    def __init__(self, *_: object) -> None:
        pass

    def read_last(self, ranges: Mapping[int, tuple[int, int]]) -> dict[int, tuple[Mark, ...]]:
        return {p: (Mark(end - 1, start, "same"),) for p, (start, end) in ranges.items()}


@pytest.fixture
def observed_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Build the log continuity of a driver before its first epoch, with a mock client and heartbeat."""
    monkeypatch.setattr(continuity, "MarkReader", HeldLog)
    context = Mock(place=tmp_path)
    context.clock.monotonic.return_value = 0.0
    context.client.config.return_value = {"cleanup.policy": "delete"}
    observed_log: Any = Continuity(context, Mock(newest=None), LOG)
    observed_log.health = Mock()
    observed_log._context.client.disconnects = 0
    observed_log._context.client.latest.return_value = {0: 8}
    observed_log._context.client.newest_times.return_value = {0: 100, 1: 200}
    return observed_log


def ends(*offsets: int) -> dict[int, LogEnd]:
    return {p: LogEnd(offset=offset, leader_epoch=1) for p, offset in enumerate(offsets)}


def snapshot(observed_log: Any, at: Mapping[int, LogEnd], read: Mapping[int, int]) -> LogSnapshot:
    observed_log._context.client.log_ends.return_value = at
    assert observed_log.read_ends(read) == at
    log_snapshot: LogSnapshot = observed_log.health.note_look.call_args.args[0]
    return log_snapshot


@pytest.mark.parametrize(
    ("read", "is_behind"),
    [({0: 9, 1: 4}, False), ({0: 8, 1: 4}, True), ({0: 9}, True), ({0: 10, 1: 4}, False)],
    ids=["at the end", "one behind", "a new partition", "beyond"],
)
def test_stable_offsets_are_requested_only_with_unread_records(
    observed_log: Any, read: Mapping[int, int], *, is_behind: bool
) -> None:
    stable = {0: 8} if is_behind else {}

    assert snapshot(observed_log, ends(9, 4), read) == LogSnapshot(
        read=read, high={0: 9, 1: 4}, stable=stable, newest={}
    )
    assert observed_log._context.client.latest.called is is_behind


def test_a_new_partition_that_is_empty_is_not_behind(observed_log: Any) -> None:
    assert snapshot(observed_log, ends(9, 0), {0: 9}).stable == {}
    assert snapshot(observed_log, ends(9, 1), {0: 9}).stable == {0: 8}


def test_newest_times_are_requested_for_partitions_that_grew(observed_log: Any) -> None:
    looks = [snapshot(observed_log, at, {0: 9, 1: 9}).newest for at in (ends(9, 4), ends(9, 4), ends(9, 5), ends(9, 5))]

    assert looks == [{}, {}, {1: 200}, {}]
    assert observed_log._context.client.newest_times.call_count == 1


def test_a_later_end_seen_by_an_epoch_is_kept(observed_log: Any) -> None:
    observed_log.high = {0: 12, 1: 3}

    observed_log.note_ends(ends(9, 4, 0), prove=False)

    assert observed_log.high == {0: 12, 1: 4, 2: 0}


@pytest.mark.parametrize(
    ("prove", "leader", "request_count"),
    [(True, 1, 0), (True, 2, 1), (False, 2, 0)],
    ids=["same", "other", "not to prove"],
)
def test_the_log_is_proven_again_after_a_leader_change(
    observed_log: Any, prove: bool, leader: int, request_count: int
) -> None:
    observed_log.prove(ends(9))

    end = {0: LogEnd(offset=9, leader_epoch=leader)}
    observed_log._context.client.log_ends.return_value = end

    observed_log.note_ends(end, prove=prove)

    assert observed_log._context.client.log_ends.call_count == request_count


def test_marks_of_a_new_partition_are_read_from_zero(observed_log: Any) -> None:
    plan = EpochPlan(epoch=3, start={0: 5}, end={0: 9, 1: 3}, clipped=False, watermark=None)

    assert observed_log.mark(plan).result() == {0: (Mark(8, 5, "same"),), 1: (Mark(2, 0, "same"),)}


@pytest.mark.parametrize(("seconds", "is_read"), [(9.9, False), (10.0, True)])
def test_the_clean_up_policy_is_read_again_every_ten_seconds(
    observed_log: Any, seconds: float, *, is_read: bool
) -> None:
    observed_log._context.clock.monotonic.return_value = seconds

    snapshot(observed_log, ends(9, 4), {0: 9, 1: 4})

    assert observed_log._context.client.config.called is is_read


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_topic_that_became_compacted_stops_the_driver(observed_log: Any, policy: str) -> None:
    observed_log._context.clock.monotonic.return_value = 10.0
    observed_log._context.client.config.return_value = {"cleanup.policy": policy}

    with pytest.raises(LogError, match=f"Topic t: expected cleanup.policy `delete`, got `{policy}`") as refused:
        observed_log.read_ends({0: 9, 1: 4})

    assert refused.value.runbook == "LogDataLost"


@pytest.mark.parametrize(("records", "is_checked"), [(7, False), (6, True), (8, True), (0, True)])
def test_epoch_with_as_many_records_as_offsets_needs_no_headers(
    observed_log: Any, monkeypatch: pytest.MonkeyPatch, records: int, *, is_checked: bool
) -> None:
    find = Mock(return_value=())
    monkeypatch.setattr(complete_read, "find_unexplained", find)
    plan = EpochPlan(epoch=3, start={0: 5, 1: 5}, end={0: 9, 1: 8}, clipped=False, watermark=None)

    observed_log.check_complete(Mock(), plan, records)

    assert find.called is is_checked
