"""A join of two topics on its whole way: Kafka, Spark, Delta, fold, batch, comparison, `explain`, `audit`, `verify`.

Rows of both sides come late, a driver dies behind a commit, and Spark's own query reads the end of both topics.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from cutover.batch import recompute
from cutover.clock import SystemClock
from cutover.definition import EachEpoch, Repeat
from cutover.definition.model.joins import RIGHT_PARTITION_BASE
from cutover.engine import queries
from cutover.errors import LogError
from cutover.lake.serving.views import open_views
from cutover.lake.tables import delta
from cutover.log.kafka import LogClient, RawRecord
from cutover.log.topic_partitions import name_log, split_topics
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution.explain import explain_cell
from cutover.reconcile.audit.run import audit_determinism
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.reconcile.run import run_reconciliation
from cutover.reconcile.verify.facts.facts import CheckState
from cutover.reconcile.verify.record import verify_pipeline
from cutover.records import reference
from cutover.settings import KafkaSettings, Settings, StreamSettings
from cutover.streaming import driver
from cutover.streaming.recovery import accept_loss
from tests.integration.streaming import rig
from tests.support.drivers.books import check_books, expected_rows, rows_of
from tests.support.drivers.fed import Fed, HandClock
from tests.support.log.real_log import Writer
from tests.support.pages.capabilities import note_feature
from tests.support.rows.joined import TWO, with_join_type
from tests.support.suite.quick_spark import QUICK
from tests.support.suite.until import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("comparisons_twice")

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
LEFT, CLICK = 0, RIGHT_PARTITION_BASE  # the first partition of each side
Sent = tuple[int, float, str | None, Mapping[str, Any]]  # partition, hours of event time after noon, key, fields

IN_TIME: tuple[Sent, ...] = (
    (LEFT, 0.1, "a", {"price": 1.25, "v": 1}),
    (LEFT + 1, 0.2, "a", {"price": 1.25, "v": 1}),
    (LEFT, 0.3, "a", {"price": 2, "v": 3}),
    (CLICK, 0.1, "a", {"x": 0.5, "n": 4}),
    (CLICK + 1, 0.4, "a", {"n": 9}),
    (LEFT, 0.5, "b", {"v": 7}),
    (CLICK, 0.5, None, {"n": 1}),
    (LEFT + 1, 0.6, None, {"v": 2}),
)
NEXT: tuple[Sent, ...] = ((CLICK + 1, 1.1, "c", {"n": 5}), (LEFT, 1.2, "c", {"v": 1}), (CLICK, 1.3, "d", {"n": 2}))
FAR: tuple[Sent, ...] = tuple((p, 9.5, "z", {"v": 1}) for p in (LEFT, LEFT + 1, CLICK, CLICK + 1))
LATE: tuple[Sent, ...] = (
    (CLICK, 0.7, "b", {"n": 3}),
    (LEFT + 1, 0.8, "a", {"v": 5}),
    (CLICK + 1, 0.9, "a", {"x": "no"}),
)


def log_of_sent(sends: Iterable[Sent]) -> list[RawRecord]:
    """Return the log that holds these records, each written in the order given."""
    following: dict[int, int] = {}
    raw_records = []
    for partition, hours, key, fields in sends:
        at = round((NOON + hours * HOUR).timestamp() * 1000)
        name = "ad" if partition < RIGHT_PARTITION_BASE else "banner"
        offset = following[partition] = following.get(partition, -1) + 1
        value = json.dumps({"at": at, name: key, **fields}).encode()
        raw_records.append(RawRecord(partition=partition, offset=offset, log_time_micros=at * 1000, value=value))
    return raw_records


def end_of(log: Iterable[RawRecord]) -> dict[int, int]:
    """Return the next offset of every partition of both topics."""
    ends = {side + partition: 0 for side in (LEFT, CLICK) for partition in range(3)}
    return ends | {record.partition: record.offset + 1 for record in log}


LOG = log_of_sent((*IN_TIME, *NEXT, *FAR, *LATE))
BEFORE_LATE = LOG[: -len(LATE)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """An installation in which both paths and the comparison have run."""

    lake: PipelineLake
    report: Report


@pytest.fixture(scope="module")
def driven(spark: "SparkSession", kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Driven:
    settings = Settings(
        home=tmp_path_factory.mktemp("joined"),
        kafka=KafkaSettings(bootstrap_servers=kafka_bootstrap),
        spark=QUICK,
        stream=StreamSettings(trigger_seconds=0.01, heartbeat_seconds=0.2),
    )
    pipeline = replace(with_join_type(rig.over_topic(TWO, "joined"), "full"), trigger=Repeat(EachEpoch()))
    writer = Writer(settings)
    writer.fill(pipeline, BEFORE_LATE)
    lake = PipelineLake(settings, pipeline)
    fed = Fed(spark, lake, HandClock())
    fed.feed(end_of(LOG[:4]))
    fed.feed_and_die(end_of(LOG[: len(IN_TIME)]), "epoch.committed")
    fed = fed.anew()
    fed.feed_and_die(end_of(BEFORE_LATE[:-2]), "epoch.aggregated")
    fed.anew().feed(end_of(BEFORE_LATE))
    for topic, topic_records in zip(split_topics(name_log(pipeline)), _by_topic(LOG), strict=True):
        writer.write(topic, topic_records[1], preceding=topic_records[0])
    driver.run_driver(lake, until="final")
    recompute.recompute_windows(lake)
    return Driven(lake=lake, report=run_reconciliation(lake))


def _by_topic(log: list[RawRecord]) -> list[tuple[list[RawRecord], list[RawRecord]]]:
    """Return for each topic, by Kafka's own numbers, the records before the late ones, and the late ones."""
    sides = [[r for r in log if r.partition // RIGHT_PARTITION_BASE == turn] for turn in (0, 1)]
    return [
        (
            [replace(r, partition=r.partition % RIGHT_PARTITION_BASE) for r in side if r in BEFORE_LATE],
            [replace(r, partition=r.partition % RIGHT_PARTITION_BASE) for r in side if r not in BEFORE_LATE],
        )
        for side in sides
    ]


def test_every_epoch_is_what_plain_python_makes_of_both_topics(driven: Driven) -> None:
    records = check_books(driven.lake, LOG)

    assert dict(records[-1].end) == end_of(LOG)
    assert sum(record.counts["late"] for record in records) == 2
    assert sum(record.counts["malformed"] for record in records) == 1


def test_the_batch_pairs_late_rows_of_either_side(driven: Driven) -> None:
    connection = queries.open_duckdb()
    delta.relation(connection, "batch", driven.lake.batch_uri())
    rows = rows_of(connection, driven.lake.pipeline, "SELECT * FROM batch")

    assert expected_rows(reference.compute_reference(driven.lake.pipeline, LOG)) == rows
    noon = round(NOON.timestamp()) * 10**6
    pairs = {key: values["pairs"] for (start, _, (key,)), (_, values) in rows.items() if start == noon}
    assert pairs == {"a": 4 * 2, "b": 1, None: 2}
    note_feature("join: Join, full", "reference", "streaming", "batch")


def test_late_rows_of_either_side_explain_every_difference(driven: Driven) -> None:
    causes = driven.report.finding.causes

    assert (driven.report.finding.verdict, causes["late"].rows, causes["late"].events) == (Verdict.EXPLAINED, 2, 2)
    assert causes["unexplained"].rows == 0


def test_the_seal_names_both_topics_with_their_own_cuts(driven: Driven) -> None:
    cuts_by_topic = {log.topic: dict(log.cut) for log in driven.report.finding.seal.logs}
    ends = end_of(LOG)

    assert cuts_by_topic == {
        topic: {str(p % RIGHT_PARTITION_BASE): n for p, n in ends.items() if p // RIGHT_PARTITION_BASE == turn}
        for turn, topic in enumerate(("joined", "joined-right"))
    }


def test_a_window_and_key_is_explained_with_the_late_row_of_the_right(driven: Driven) -> None:
    explanation = explain_cell(driven.lake, NOON, ["b"])

    assert [(row.class_, row.partition, row.offset) for row in explanation.rows] == [("late", CLICK, 4)]


def test_verify_finds_every_epoch_right(driven: Driven) -> None:
    verification = verify_pipeline(driven.lake, exhaustive=True)

    assert {name: checked.state for name, checked in verification.checks.items()} == dict.fromkeys(
        verification.checks, CheckState.HELD
    )


def test_replays_in_other_ways_give_the_same_pairs(driven: Driven) -> None:
    determinism_audit = audit_determinism(driven.lake, replays=1, seed=1)

    assert (determinism_audit.exit_code, determinism_audit.records) == (0, len(LOG))


def test_people_read_the_pairs_of_the_stream(driven: Driven) -> None:
    with open_views(driven.lake) as connection:
        rows = connection.execute(
            "SELECT ad, pairs FROM streaming WHERE window_start = ? ORDER BY ad NULLS LAST", [NOON]
        ).fetchall()

    assert rows == [("a", 3 * 2), ("b", 1), (None, 2)]


def test_the_last_pane_of_every_window_has_the_pairs_of_the_stream(driven: Driven) -> None:
    newest = "QUALIFY row_number() OVER (PARTITION BY window_start, ad ORDER BY _epoch DESC, _order DESC) = 1"
    with open_views(driven.lake) as connection:
        expected, last_panes = (
            connection.execute(f"SELECT window_start, ad, pairs, mixed, rate FROM {rows} ORDER BY ALL").fetchall()  # noqa: S608
            for rows in ("streaming", f"(FROM panes {newest})")
        )

    assert (expected, len(expected)) == (last_panes, 6)


def test_a_right_topic_made_again_stops_the_stream_before_it_writes(
    kafka_settings: Settings, spark: "SparkSession", topic_name: str
) -> None:
    settings = rig.fast(kafka_settings)
    pipeline = rig.over_topic(TWO, topic_name)
    right = f"{topic_name}-right"
    Writer(settings).fill(pipeline, log_of_sent(IN_TIME))
    lake = PipelineLake(settings, pipeline)
    Fed(spark, lake, HandClock()).feed(end_of(log_of_sent(IN_TIME)))
    version = rig.epoch_log(lake).version
    LogClient(settings).delete_topic(right)
    until(lambda: right not in LogClient(settings).topics())
    rig.make_topic(settings, right, partitions=3)

    with pytest.raises(LogError, match="the epoch log was built from") as refused:
        driver.run_driver(lake, until="drain")
    with pytest.raises(LogError, match="of which one was recreated") as not_accepted:
        accept_loss.preview_losses(lake, SystemClock())

    assert (refused.value.runbook, not_accepted.value.runbook) == ("TopicIdentityChanged", "TopicIdentityChanged")
    assert version == rig.epoch_log(lake).version
