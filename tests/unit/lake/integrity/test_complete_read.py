"""Ranges with missing offsets are complete if an epoch of any version counted exactly the remaining records."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from cutover.clock import SystemClock
from cutover.definition import Count, Fixed, Pipeline, Sliding, Topic
from cutover.errors import LogError
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.integrity import complete_read
from cutover.lake.integrity.complete_read import ReadLog
from cutover.lake.tables import commits, delta
from cutover.lake.tables.schemas import epoch_log_schema
from cutover.log.cut import LogId
from cutover.log.record_batches import MissingRecords
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from tests.unit.lake.integrity.test_complete_epochs import Message
from tests.unit.verify.epochs import epoch

CLICKS = Pipeline(
    name="clicks",
    source=Topic(name="clicks", schema="k string, at timestamp", event_time="at"),
    key=("k",),
    window=Fixed(hours=1),
    measures={"n": Count()},
)
CHANGED = replace(CLICKS, measures={"n": Count(), "m": Count()})
GAP = MissingRecords(0, 2, 4, 2)
LOG = LogId(cluster_id="cluster-1", topic="clicks", topic_id="topic-1")


class HeldLog:
    """A partition of which a reader gets the offsets 0, 1 and 4, and no other one."""

    def earliest(self, topic: str) -> dict[int, int]:
        assert topic == "clicks"
        return {0: 0}

    def messages(self, topic: str, ranges: Mapping[int, tuple[int, int]], isolation: str) -> Iterator[Message]:
        assert (topic, isolation) == ("clicks", "read_committed")
        yield from (Message(at, b"") for at in (0, 1, 4) if ranges[0][0] <= at < ranges[0][1])


def begin(lake: PipelineLake, *records: EpochRecord) -> Version:
    """Register a version with some epochs."""
    version = versions.open_or_create(lake, SystemClock())
    schema = epoch_log_schema(lake.pipeline)
    table = delta.ensure(version.uri, schema, partition_by=["_kind"])
    for record in records:
        row = {"_kind": "epoch", "_epoch": record.epoch, "_record": record.to_json()}
        commits.append(table, pa.Table.from_pylist([row], schema=schema))
    return version


def counted(records: int, **changes: object) -> EpochRecord:
    values = {"start": {0: 0}, "end": {0: 5}, "records": records, "counts": {"accepted": records}, **changes}
    return epoch(0, **values)


def check(monkeypatch: pytest.MonkeyPatch, lake: PipelineLake, version: Version, records: int = 3) -> None:
    monkeypatch.setattr(complete_read, "find_missing_ranges", lambda *_: (GAP,))
    client: Any = HeldLog()
    session: Any = None
    log = ReadLog(lake=lake, version=version, client=client, log_id=LOG)
    complete_read.check_complete(session, log, [(({0: (0, 5)},), records)])


@pytest.mark.parametrize(
    ("record", "is_complete"),
    [
        (counted(3), True),
        (counted(4), False),
        (counted(3, topic_id="topic-2"), False),
        (counted(3, isolation="read_uncommitted"), False),
        (counted(3, end={0: 3}), False),
    ],
    ids=["the same records", "one more", "another log", "aborted records too", "read a part"],
)
@pytest.mark.parametrize("earlier_definition", [CLICKS, CHANGED], ids=["its version", "an earlier definition"])
def test_an_epoch_that_counted_the_remaining_records_explains_a_gap(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    earlier_definition: Pipeline,
    record: EpochRecord,
    *,
    is_complete: bool,
) -> None:
    begin(PipelineLake(settings, earlier_definition), record)
    lake = PipelineLake(settings, CLICKS)
    version = begin(lake)

    if is_complete:
        check(monkeypatch, lake, version)
    else:
        with pytest.raises(LogError, match=r"Topic clicks, partition 0: [12] of the offsets") as refused:
            check(monkeypatch, lake, version)
        assert refused.value.runbook == "LogDataLost"


def test_log_is_not_read_if_there_are_as_many_records_as_offsets(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = PipelineLake(settings, CLICKS)
    check(monkeypatch, lake, begin(lake), records=5)


def test_pairs_of_an_unknown_window_count_no_records(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    sliding = replace(CLICKS, window=Sliding(size="1 hour", every="30 minutes"))
    lake = PipelineLake(settings, sliding)
    begin(lake, counted(3, counts={"accepted": 6}))

    check(monkeypatch, lake, begin(lake))
    with pytest.raises(LogError, match="of the offsets 2 to 3"):
        check(monkeypatch, PipelineLake(settings, CLICKS), begin(PipelineLake(settings, CLICKS)))
