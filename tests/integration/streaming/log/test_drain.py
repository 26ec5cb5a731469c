"""One log with everything a log can hold, drained in small epochs: where each record ended up."""

from dataclasses import dataclass

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession

from cutover.errors import LakeError
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.pipeline_lake import PipelineLake
from cutover.settings import KafkaSettings, Settings
from cutover.streaming import driver
from cutover.streaming.process import heartbeat
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event

GOOD = [Event(id=i, minute=i * 0.25 - (i % 7), key=("a", "b", None)[i % 3], partition=i % 2) for i in range(300)]
LATE = [Event(id=1000 + i, minute=5, partition=0, logged=90) for i in range(4)]  # sent last: 85 minutes behind
FILTERED = [Event(id=2000 + i, minute=60, key="drop", partition=1) for i in range(3)]
FUTURE = [Event(id=3000, minute=80 + 61, partition=0, logged=80), Event(id=3001, minute=60_000_000, logged=80)]
BROKEN = [
    Event(id=-1, raw=raw, partition=1, minute=10)
    for raw in (b"{", b"\xff\xfe", b"", b'{"id": "one", "k": "a", "at": 1}', b'{"k": "a", "at": 1}', b"[" * 5000)
]
MORE = [Event(id=5000 + i, minute=200, partition=3) for i in range(5)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    lake: PipelineLake
    epochs: list[EpochRecord]
    version: int  # of the table
    version_again: int  # after a drain of the same log
    resumed: list[EpochRecord]  # after two partitions and five records more
    sealed: EpochRecord  # after --final


@pytest.fixture(scope="module")
def drained(spark: SparkSession, kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Drained:
    """Drain once, again, and after more records; every test below checks one fact of it."""
    settings = rig.fast(
        Settings(home=tmp_path_factory.mktemp("drain"), kafka=KafkaSettings(bootstrap_servers=kafka_bootstrap))
    )
    topic = f"drain-{spark.sparkContext.applicationId}"
    pipeline = rig.pipeline(topic)
    rig.make_topic(settings, topic, partitions=3)  # the third one never holds a record
    rig.send(settings, topic, [*BROKEN, *GOOD, *FILTERED, *FUTURE])
    lake = PipelineLake(settings, pipeline)
    assert driver.run_driver(lake, until="drain") == 0
    rig.send(settings, topic, LATE)
    assert driver.run_driver(lake, until="drain") == 0
    epochs, version = rig.records(lake), rig.epoch_log(lake).version
    assert driver.run_driver(lake, until="drain") == 0
    version_again = rig.epoch_log(lake).version
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result()
    rig.send(settings, topic, MORE)
    assert driver.run_driver(lake, until="final") == 0
    resumed = rig.records(lake)
    return Drained(
        lake=lake,
        epochs=epochs,
        version=version,
        version_again=version_again,
        resumed=resumed,
        sealed=resumed[-1],
    )


def test_accepted_and_late_together_count_every_good_record_once(drained: Drained) -> None:
    assert rig.expect_cells([*GOOD, *LATE]) == rig.count_by_cell(drained.lake, epoch=len(drained.epochs) - 1)


def test_late_records_are_those_behind_the_watermark(drained: Drained) -> None:
    late = rig.count_by_cell(drained.lake, classes=["late"])

    assert rig.expect_cells(LATE) == late


def test_every_epoch_starts_where_the_one_before_ended(drained: Drained) -> None:
    assert len(drained.epochs) > 5
    assert rig.gaps(drained.resumed) == []


def test_counts_of_an_epoch_balance_with_its_offsets(drained: Drained) -> None:
    spans = [sum(e.end.values()) - sum(e.start.values()) for e in drained.epochs]

    assert spans == [e.records for e in drained.epochs]
    assert spans == [sum(e.counts.values()) for e in drained.epochs]


def test_records_that_do_not_count_are_counted_by_class(drained: Drained) -> None:
    totals = {kind: sum(e.counts[kind] for e in drained.epochs) for kind in ("malformed", "filtered", "future", "late")}

    assert totals == {"malformed": len(BROKEN), "filtered": len(FILTERED), "future": len(FUTURE), "late": len(LATE)}


def test_broken_records_are_kept_by_position_with_a_reason(drained: Drained) -> None:
    query = """
        SELECT p.partition, p."offset", p.reason
        FROM (SELECT unnest(_positions) AS p FROM rows WHERE _class = 'malformed') ORDER BY p."offset"
    """
    reasons = ["json", "utf8", "empty", "type", "missing", "json"]

    assert [(1, i, reason) for i, reason in enumerate(reasons)] == rig.query_rows(drained.lake, query)


def test_watermark_follows_the_slower_partition_and_ignores_the_future(drained: Drained) -> None:
    slowest = min(max(e.micros for e in [*GOOD, *FILTERED] if e.partition == p) for p in (0, 1))

    assert slowest - 5 * rig.MINUTE == drained.epochs[-1].watermark_after


def test_watermark_never_goes_back(drained: Drained) -> None:
    marks = [e.watermark_after for e in drained.resumed if e.watermark_after is not None]

    assert marks == sorted(marks)


def test_drain_of_a_log_without_news_commits_nothing(drained: Drained) -> None:
    assert drained.version == drained.version_again


def test_new_partition_is_read_from_its_first_offset(drained: Drained) -> None:
    first_resumed = drained.resumed[len(drained.epochs)]

    assert (0, len(MORE)) == (first_resumed.start[3], first_resumed.end[3])


def test_final_closes_every_window_and_seals_the_version(drained: Drained) -> None:
    last_window_end = rig.NOON + 210 * rig.MINUTE

    assert (True, True, last_window_end) == (drained.sealed.final, drained.sealed.tick, drained.sealed.watermark_after)


def test_sealed_version_is_not_driven_on(drained: Drained) -> None:
    with pytest.raises(LakeError, match=r"sealed by --final at epoch \d+"):
        driver.run_driver(drained.lake, until="drain")


def test_sealing_twice_is_no_error(drained: Drained) -> None:
    assert driver.run_driver(drained.lake, until="final") == 0


def test_driver_leaves_a_last_heartbeat(drained: Drained) -> None:
    driver.run_driver(drained.lake, until="final")
    last_beat = heartbeat.find_heartbeat(drained.lake.settings, drained.lake.name)

    assert last_beat is not None
    assert (last_beat.state, last_beat.exit_code) == ("STOPPED", 0)
