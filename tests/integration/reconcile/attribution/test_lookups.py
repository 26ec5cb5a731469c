"""A dimension that changes while a stream runs: both paths and plain Python join each record with the same version."""

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from cutover.batch import recompute
from cutover.clock import SystemClock
from cutover.definition import Count, Fixed, Lateness, Lookup, Pipeline, Sql, Sum, Topic
from cutover.errors import LakeError
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun
from cutover.lake.control.versions import looking_at
from cutover.lake.dimensions import dimension, load
from cutover.lake.dimensions.rejoin import Rejoin
from cutover.lake.serving import views
from cutover.log.kafka import LogClient
from cutover.probe import Point
from cutover.reconcile.attribution.explain import explain
from cutover.reconcile.audit.run import determinism
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.reconcile.run import reconcile
from cutover.reconcile.selftest import trial
from cutover.reconcile.selftest.self_test import self_test
from cutover.reconcile.verify.model import CheckState
from cutover.reconcile.verify.runner import verify
from cutover.records import reference
from cutover.settings import DimensionSettings, KafkaSettings, Settings
from cutover.streaming import driver
from cutover.streaming.recovery import fork
from cutover.streaming.replacement.replay import replay
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event
from tests.support.pages.capabilities import note_feature

ADS = ("a", "b", "c", "unknown", None)
FIRST = [Event(id=i, minute=i / 3, key=ADS[i % 5], partition=i % 2) for i in range(90)]
FUTURE = Event(id=150, minute=25, key="a", partition=0, logged=-40)
SECOND = [Event(id=200 + i, minute=30 + i / 2, key=ADS[i % 5], partition=i % 2) for i in range(40)]
LATE = [Event(id=500 + i, minute=1, key="a", partition=0, logged=50) for i in range(3)]
CAMPAIGNS: tuple[Mapping[str, str | None], ...] = (
    {"a": "x", "b": "y", "c": None},
    {"a": "x", "b": "x", "c": "y"},
    {"a": "z", "b": "y"},
)
TWICE = -1  # a version with a key twice
CHANGED_BY = 2  # the epoch behind which version 1 is written, while the driver runs
SQL = """
SELECT timestamp_micros(unix_micros(at) DIV 600000000 * 600000000) AS window_start, campaign, count(*) AS views,
    CAST(sum(id) AS decimal(38,0)) AS ids
FROM events WHERE _class = 'accepted' GROUP BY ALL
"""


def pipeline(topic: str) -> Pipeline:
    return Pipeline(
        name="views",
        source=Topic(
            name=topic,
            schema="id bigint NOT NULL, k string, at timestamp NOT NULL",
            event_time="at",
            time_format="millis",
        ),
        lookups={"ads": Lookup(table="ads", on={"k": "ad"}, columns={"campaign": "string"})},
        where="campaign IS NOT NULL",
        key=("campaign",),
        window=Fixed(minutes=10),
        measures={"views": Count(), "ids": Sum("id")},
        lateness=Lateness(out_of_orderness="0 seconds", allowed="0 seconds"),
        max_rows_per_epoch=20,
    )


def moment(minute: int) -> datetime:
    return datetime.fromtimestamp(rig.NOON / 1_000_000, UTC) + timedelta(minutes=minute)


def write(settings: Settings, version: int) -> None:
    known = [*CAMPAIGNS[version].items(), *([("a", "again")] if version == TWICE else [])]
    rows = pa.table({"ad": [ad for ad, _ in known], "campaign": pa.array([c for _, c in known], pa.string())})
    with tempfile.TemporaryDirectory() as folder:
        parquet.write_table(rows, Path(folder) / "ads.parquet")
        load.load(settings, "ads", Path(folder) / "ads.parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    settings: Settings
    pipeline: Pipeline

    def drain(self, events: list[Event], *, writes: int | None = None, behind: int = CHANGED_BY) -> None:
        """Send and drain; behind an epoch another version of the dimension may be written."""

        def probe(point: Point, epoch: int) -> None:
            if writes is not None and (point, epoch) == ("epoch.committed", behind):
                write(self.settings, writes)

        rig.send(self.settings, self.pipeline.source.name, events)
        assert driver.run(self.settings, self.pipeline, until="drain", probe=probe) == 0

    def batch(self, changed: Pipeline | None = None) -> BatchRun:
        run = recompute.run(self.settings, changed or self.pipeline)
        assert run is not None
        return run

    def reconcile(self, changed: Pipeline | None = None) -> Report:
        return reconcile(self.settings, changed or self.pipeline)


@pytest.fixture(scope="module")
def lab(spark: SparkSession, kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A stream over three versions of its dimension, driven twice, and a batch run at its end."""
    home = tmp_path_factory.mktemp("lookups")
    known = Settings(
        home=home, kafka=KafkaSettings(bootstrap_servers=kafka_bootstrap), dimensions=DimensionSettings(look_seconds=0)
    )
    settings = rig.fast(known)
    topic = f"lookups-{spark.sparkContext.applicationId}"
    made = Lab(settings=settings, pipeline=pipeline(topic))
    rig.make_topic(settings, topic, partitions=2)
    write(settings, 0)
    made.drain([*FIRST, FUTURE], writes=1)
    write(settings, 2)
    made.drain([*SECOND, *LATE, *(Event(id=900 + p, minute=130, key="a", partition=p) for p in range(2))])
    made.batch()
    return made


@pytest.fixture
def own(lab: Lab, tmp_path: Path) -> Lab:
    """A copy of it, for a test that changes it; the topic is the same."""
    shutil.copytree(lab.settings.home, tmp_path / "home")
    return replace(lab, settings=lab.settings.model_copy(update={"home": tmp_path / "home"}))


def test_each_epoch_records_the_version_it_was_joined_with(lab: Lab) -> None:
    found = [record.dimensions["ads"] for record in rig.records(lab.settings, lab.pipeline) if record.records]

    assert found[: CHANGED_BY + 2] == [0] * (CHANGED_BY + 1) + [1]
    assert sorted(found) == found
    assert set(found) == {0, 1, 2}


def test_batch_joined_each_offset_as_the_stream_did(lab: Lab) -> None:
    (run,) = batch_runs.read_effective_runs(lab.settings, lab.pipeline)
    spans = Rejoin(lab.settings, lab.pipeline).collect_recorded(rig.records(lab.settings, lab.pipeline))

    assert run.dimensions == spans


def test_plain_python_gives_what_both_paths_have(lab: Lab) -> None:
    rejoin, client = Rejoin(lab.settings, lab.pipeline), LogClient(lab.settings)
    spans = rejoin.collect_recorded(rig.records(lab.settings, lab.pipeline))
    ranges = {p: (0, end) for p, end in rig.records(lab.settings, lab.pipeline)[-1].end.items()}
    log = list(client.read_ranges(lab.pipeline.source.name, ranges, "read_committed"))

    expected = reference.run(lab.pipeline, log, dimensions=rejoin.at(spans))

    found = rig.ask(
        lab.settings,
        lab.pipeline,
        "SELECT epoch_us(window_start), campaign, sum(_n)::BIGINT, sum(ids)::BIGINT FROM rows"
        " WHERE _class IN ('accepted', 'late') GROUP BY ALL",
    )
    rows = {(start, key): (row.n, row.measures["ids"]) for (start, _, (key,)), row in expected.rows.items()}
    assert rows == {(start, key): (n, ids) for start, key, n, ids in found}
    with views.connect(lab.settings, lab.pipeline) as connection:
        batch = connection.sql("SELECT epoch_us(window_start), campaign, _n, ids FROM batch").fetchall()
    closed = {cell: value for cell, value in rows.items() if cell[0] < rig.NOON + 120 * rig.MINUTE}
    assert closed == {(start, key): (n, ids) for start, key, n, ids in batch}
    note_feature("lookup", "reference", "streaming", "batch")


def test_only_late_records_tell_the_paths_apart(lab: Lab) -> None:
    found = lab.reconcile()

    assert (found.finding.verdict, found.finding.causes["late"].events) == (Verdict.EXPLAINED, len(LATE))
    assert {name for name, cause in found.finding.causes.items() if cause.rows} == {"late"}
    assert any("0 contradicted, 0 can no longer be proven" in note for note in found.finding.notes)


def test_a_self_test_plants_other_rows_of_the_dimension_and_has_them_named(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "TABLE_SHARE", 1)
    monkeypatch.setattr(trial, "VERSION_SHARE", 1)

    found = self_test(lab.settings, lab.pipeline, seed=1, trials=2, clock=SystemClock())

    kind = found.by_kind["other dimension row"]
    assert found.failures == ()
    assert (kind.detection_rate.hits, kind.right_cause_rate.hits) == (kind.detection_rate.of, kind.right_cause_rate.of)
    assert kind.right_cause_rate.of > 0
    assert dimension.open_dimension(lab.settings, lab.pipeline, "ads").version == len(CAMPAIGNS) - 1


def test_a_teams_sql_sees_the_columns_too(own: Lab, tmp_path: Path) -> None:
    (tmp_path / "views.sql").write_text(SQL, encoding="utf-8")
    changed = replace(own.pipeline, batch=Sql("views.sql"), file=tmp_path / "views.py")

    own.batch(changed)

    assert {name for name, cause in own.reconcile(changed).finding.causes.items() if cause.rows} == {"late"}


def test_every_check_holds_and_replays_agree(own: Lab) -> None:
    own.batch()
    found = verify(own.settings, own.pipeline, exhaustive=True)
    audited = determinism(own.settings, own.pipeline, replays=1, seed=7)

    assert {name: checked.state for name, checked in found.checks.items()} == dict.fromkeys(
        found.checks, CheckState.HELD
    )
    assert audited.exit_code == 0


def test_a_fork_that_joined_a_newer_version_differs_by_the_dimension_until_batch_follows(own: Lab) -> None:
    fork.fork(own.settings, own.pipeline, 1, SystemClock())
    own.drain([])

    own.batch()
    parted, explained = own.reconcile(), explain(own.settings, own.pipeline, moment(20), ["x"])
    recompute.run(own.settings, own.pipeline, start=moment(0), end=moment(130))
    again = own.reconcile()

    assert (parted.finding.verdict, parted.finding.exit_code, parted.finding.runbook) == (
        Verdict.EXPLAINED,
        1,
        "DimensionChanged",
    )
    assert parted.finding.causes["dimension"].rows > 0
    assert (parted.finding.dimensions[0].streaming, parted.finding.dimensions[0].batch) == ((0, 2), (0, 1, 2))
    assert [value.cause for value in explained.values] == ["dimension", "dimension"]
    assert {name for name, cause in again.finding.causes.items() if cause.rows} == {"late"}


@pytest.mark.parametrize(
    ("counted", "future"), [("('accepted')", 0), ("('accepted', 'future')", 1)], ids=["accepted", "future too"]
)
def test_versions_explain_a_difference_from_a_teams_sql_whatever_classes_it_counts(
    own: Lab, tmp_path: Path, counted: str, future: int
) -> None:
    (tmp_path / "views.sql").write_text(SQL.replace("= 'accepted'", f"IN {counted}"), encoding="utf-8")
    changed = replace(own.pipeline, batch=Sql("views.sql"), file=tmp_path / "views.py")
    own.batch(changed)
    before = own.reconcile(changed)
    fork.fork(own.settings, own.pipeline, 1, SystemClock())
    own.drain([])

    own.batch(changed)
    found = own.reconcile(changed)

    assert (before.finding.causes["future"].rows, before.finding.causes["dimension"].rows) == (future, 0)
    assert (found.finding.verdict, found.finding.causes["unexplained"].rows) == (Verdict.EXPLAINED, 0)
    assert found.finding.causes["dimension"].rows > 0


def test_a_replay_joins_what_is_there_now_and_batch_follows_it(own: Lab) -> None:
    replay(own.settings, own.pipeline, 1, SystemClock())
    settings = looking_at(own.settings, 1)

    parted = reconcile(settings, own.pipeline)  # batch has run for the version that serves
    recompute.run(settings, own.pipeline, start=moment(0), end=moment(130))
    again = reconcile(settings, own.pipeline)

    assert {record.dimensions["ads"] for record in rig.records(settings, own.pipeline) if record.records} == {2}
    assert parted.finding.verdict is Verdict.NOT_COMPARABLE
    assert (again.finding.verdict, {name for name, cause in again.finding.causes.items() if cause.rows}) == (
        Verdict.EXPLAINED,
        {"late"},
    )


def test_a_version_that_was_vacuumed_is_no_verdict_on_the_data(own: Lab) -> None:
    for file in dimension.open_dimension(own.settings, own.pipeline, "ads", 0).table.file_uris():
        Path(file.removeprefix("file://")).unlink()

    run = recompute.run(own.settings, own.pipeline, start=moment(0), end=moment(130))
    found = own.reconcile()

    assert run is not None
    assert {span.instead_of for span in run.dimensions["ads"]} == {0, None}
    assert (found.finding.verdict, found.finding.exit_code) == (Verdict.NOT_COMPARABLE, 2)
    assert found.finding.seal.breaches[0].code == "dimension"
    assert "version 0" in found.finding.seal.breaches[0].message
    # Batch runs at one cut whose records were joined otherwise are no two answers to one question.
    assert verify(own.settings, own.pipeline, only=["N8"]).violations == ()


def test_a_version_with_a_key_twice_ends_the_driver_and_refuses_the_next_one(own: Lab) -> None:
    write(own.settings, 2)
    epoch = rig.records(own.settings, own.pipeline)[-1].epoch
    events = [Event(id=2000 + i, minute=140 + i / 60, key="a", partition=i % 2) for i in range(50)]

    with pytest.raises(LakeError, match=r"expected each key \(ad\) once, got 1 keys") as ended:
        own.drain(events, writes=TWICE, behind=epoch + 1)
    with pytest.raises(LakeError, match=r"expected each key \(ad\) once, got 1 keys"):
        own.drain([])

    assert (ended.value.runbook, rig.records(own.settings, own.pipeline)[-1].epoch) == ("DimensionUnusable", epoch + 1)
