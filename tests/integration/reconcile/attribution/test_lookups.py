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
from cutover.clock import Point, SystemClock
from cutover.definition import Count, Fixed, Lateness, Lookup, Pipeline, Sql, Sum, Topic
from cutover.errors import LakeError
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun
from cutover.lake.control.versions import select_stream_version
from cutover.lake.dimensions import dimension, load
from cutover.lake.dimensions.joined_versions import Rejoin
from cutover.lake.serving import views
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution.explain import explain_cell
from cutover.reconcile.audit.run import audit_determinism
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.reconcile.run import run_reconciliation
from cutover.reconcile.selftest import trials
from cutover.reconcile.selftest.trials import self_test
from cutover.reconcile.verify.facts.facts import CheckState
from cutover.reconcile.verify.record import verify_pipeline
from cutover.records import reference
from cutover.settings import DimensionSettings, KafkaSettings, Settings
from cutover.streaming import driver
from cutover.streaming.recovery import fork
from cutover.streaming.replacement.replay import replay_log
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
CHANGED_BY = 1  # the epoch behind which version 1 is written, while the driver runs
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
        max_rows_per_epoch=40,
    )


def moment(minute: int) -> datetime:
    return datetime.fromtimestamp(rig.NOON / 1_000_000, UTC) + timedelta(minutes=minute)


def write(settings: Settings, version: int) -> None:
    campaigns = [*CAMPAIGNS[version].items(), *([("a", "again")] if version == TWICE else [])]
    rows = pa.table({"ad": [ad for ad, _ in campaigns], "campaign": pa.array([c for _, c in campaigns], pa.string())})
    with tempfile.TemporaryDirectory() as folder:
        parquet.write_table(rows, Path(folder) / "ads.parquet")
        load.load_dimension(settings, "ads", Path(folder) / "ads.parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    settings: Settings
    pipeline: Pipeline

    @property
    def lake(self) -> PipelineLake:
        """Log, lake and definition of the pipeline."""
        return PipelineLake(self.settings, self.pipeline)

    def drain(self, events: list[Event], *, writes: int | None = None, after_epoch: int = CHANGED_BY) -> None:
        """Send and drain; behind an epoch another version of the dimension may be written."""

        def probe(point: Point, epoch: int) -> None:
            if writes is not None and (point, epoch) == ("epoch.committed", after_epoch):
                write(self.settings, writes)

        rig.send(self.settings, self.pipeline.source.name, events)
        assert driver.run_driver(self.lake, until="drain", probe=probe) == 0

    def batch(self, definition: Pipeline | None = None) -> BatchRun:
        run = recompute.recompute_windows(PipelineLake(self.settings, definition or self.pipeline))
        assert run is not None
        return run

    def reconcile(self, definition: Pipeline | None = None) -> Report:
        return run_reconciliation(PipelineLake(self.settings, definition or self.pipeline))


@pytest.fixture(scope="module")
def lab(spark: SparkSession, kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A stream over three versions of its dimension, driven twice, and a batch run at its end."""
    home = tmp_path_factory.mktemp("lookups")
    plain_settings = Settings(
        home=home, kafka=KafkaSettings(bootstrap_servers=kafka_bootstrap), dimensions=DimensionSettings(look_seconds=0)
    )
    settings = rig.fast(plain_settings)
    topic = f"lookups-{spark.sparkContext.applicationId}"
    new_lab = Lab(settings=settings, pipeline=pipeline(topic))
    rig.make_topic(settings, topic, partitions=2)
    write(settings, 0)
    new_lab.drain([*FIRST, FUTURE], writes=1)
    write(settings, 2)
    new_lab.drain([*SECOND, *LATE, *(Event(id=900 + p, minute=130, key="a", partition=p) for p in range(2))])
    new_lab.batch()
    return new_lab


@pytest.fixture
def lab_copy(lab: Lab, tmp_path: Path) -> Lab:
    """A copy of it, for a test that changes it; the topic is the same."""
    shutil.copytree(lab.settings.home, tmp_path / "home")
    return replace(lab, settings=lab.settings.model_copy(update={"home": tmp_path / "home"}))


def test_each_epoch_records_the_version_it_was_joined_with(lab: Lab) -> None:
    versions = [record.dimensions["ads"] for record in rig.records(lab.lake) if record.records]

    assert versions[: CHANGED_BY + 2] == [0] * (CHANGED_BY + 1) + [1]
    assert sorted(versions) == versions
    assert set(versions) == {0, 1, 2}


def test_batch_joined_each_offset_as_the_stream_did(lab: Lab) -> None:
    (run,) = batch_runs.read_effective_runs(lab.lake)
    spans = Rejoin(lab.lake).collect_recorded(rig.records(lab.lake))

    assert run.dimensions == spans


def test_plain_python_gives_what_both_paths_have(lab: Lab) -> None:
    rejoin, client = Rejoin(lab.lake), LogClient(lab.settings)
    spans = rejoin.collect_recorded(rig.records(lab.lake))
    ranges = {p: (0, end) for p, end in rig.records(lab.lake)[-1].end.items()}
    log = list(client.read_ranges(lab.pipeline.source.name, ranges, "read_committed"))

    expected = reference.compute_reference(lab.pipeline, log, dimensions=rejoin.at(spans))

    stream_rows = rig.query_rows(
        lab.lake,
        "SELECT epoch_us(window_start), campaign, sum(_n)::BIGINT, sum(ids)::BIGINT FROM rows"
        " WHERE _class IN ('accepted', 'late') GROUP BY ALL",
    )
    rows = {(start, key): (row.n, row.measures["ids"]) for (start, _, (key,)), row in expected.rows.items()}
    assert rows == {(start, key): (n, ids) for start, key, n, ids in stream_rows}
    with views.open_views(lab.lake) as connection:
        batch = connection.sql("SELECT epoch_us(window_start), campaign, _n, ids FROM batch").fetchall()
    closed = {cell: value for cell, value in rows.items() if cell[0] < rig.NOON + 120 * rig.MINUTE}
    assert closed == {(start, key): (n, ids) for start, key, n, ids in batch}
    note_feature("lookup", "reference", "streaming", "batch")


def test_only_late_records_tell_the_paths_apart(lab: Lab) -> None:
    report = lab.reconcile()

    assert (report.finding.verdict, report.finding.causes["late"].events) == (Verdict.EXPLAINED, len(LATE))
    assert {name for name, cause in report.finding.causes.items() if cause.rows} == {"late"}
    assert any("0 contradicted, 0 can no longer be proven" in note for note in report.finding.notes)


def test_a_self_test_plants_other_rows_of_the_dimension_and_has_them_named(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "TABLE_SHARE", 1)
    monkeypatch.setattr(trials, "VERSION_SHARE", 1)

    self_test_result = self_test(lab.lake, seed=1, trials=2, clock=SystemClock())

    kind = self_test_result.by_kind["other dimension row"]
    assert self_test_result.failures == ()
    assert (kind.detection_rate.hits, kind.right_cause_rate.hits) == (kind.detection_rate.of, kind.right_cause_rate.of)
    assert kind.right_cause_rate.of > 0
    assert dimension.open_dimension(lab.lake, "ads").version == len(CAMPAIGNS) - 1


def test_a_teams_sql_sees_the_columns_too(lab_copy: Lab, tmp_path: Path) -> None:
    (tmp_path / "views.sql").write_text(SQL, encoding="utf-8")
    definition = replace(lab_copy.pipeline, batch=Sql("views.sql"), file=tmp_path / "views.py")

    lab_copy.batch(definition)

    assert {name for name, cause in lab_copy.reconcile(definition).finding.causes.items() if cause.rows} == {"late"}


def test_every_check_holds_and_replays_agree(lab_copy: Lab) -> None:
    lab_copy.batch()
    verification = verify_pipeline(lab_copy.lake, exhaustive=True)
    audited = audit_determinism(lab_copy.lake, replays=1, seed=7)

    assert {name: checked.state for name, checked in verification.checks.items()} == dict.fromkeys(
        verification.checks, CheckState.HELD
    )
    assert audited.exit_code == 0


def test_a_fork_that_joined_a_newer_version_differs_by_the_dimension_until_batch_follows(lab_copy: Lab) -> None:
    fork.fork(lab_copy.lake, 1, SystemClock())
    lab_copy.drain([])

    lab_copy.batch()
    parted, explained = lab_copy.reconcile(), explain_cell(lab_copy.lake, moment(20), ["x"])
    recompute.recompute_windows(lab_copy.lake, start=moment(0), end=moment(130))
    second_report = lab_copy.reconcile()

    assert (parted.finding.verdict, parted.finding.exit_code, parted.finding.runbook) == (
        Verdict.EXPLAINED,
        1,
        "DimensionChanged",
    )
    assert parted.finding.causes["dimension"].rows > 0
    assert (parted.finding.dimensions[0].streaming, parted.finding.dimensions[0].batch) == ((0, 2), (0, 1, 2))
    assert [value.cause for value in explained.values] == ["dimension", "dimension"]
    assert {name for name, cause in second_report.finding.causes.items() if cause.rows} == {"late"}


@pytest.mark.quick("future too")
@pytest.mark.parametrize(
    ("classes", "future"), [("('accepted')", 0), ("('accepted', 'future')", 1)], ids=["accepted", "future too"]
)
def test_versions_explain_a_difference_from_a_teams_sql_whatever_classes_it_counts(
    lab_copy: Lab, tmp_path: Path, classes: str, future: int
) -> None:
    (tmp_path / "views.sql").write_text(SQL.replace("= 'accepted'", f"IN {classes}"), encoding="utf-8")
    definition = replace(lab_copy.pipeline, batch=Sql("views.sql"), file=tmp_path / "views.py")
    lab_copy.batch(definition)
    report_before = lab_copy.reconcile(definition)
    fork.fork(lab_copy.lake, 1, SystemClock())
    lab_copy.drain([])

    lab_copy.batch(definition)
    report = lab_copy.reconcile(definition)

    assert (report_before.finding.causes["future"].rows, report_before.finding.causes["dimension"].rows) == (future, 0)
    assert (report.finding.verdict, report.finding.causes["unexplained"].rows) == (Verdict.EXPLAINED, 0)
    assert report.finding.causes["dimension"].rows > 0


def test_a_replay_joins_what_is_there_now_and_batch_follows_it(lab_copy: Lab) -> None:
    replay_log(lab_copy.lake, 1, SystemClock())
    settings = select_stream_version(lab_copy.settings, 1)

    lake = PipelineLake(settings, lab_copy.pipeline)
    parted = run_reconciliation(lake)  # batch has run for the version that serves
    recompute.recompute_windows(lake, start=moment(0), end=moment(130))
    second_report = run_reconciliation(lake)

    assert {record.dimensions["ads"] for record in rig.records(lake) if record.records} == {2}
    assert parted.finding.verdict is Verdict.NOT_COMPARABLE
    assert (
        second_report.finding.verdict,
        {name for name, cause in second_report.finding.causes.items() if cause.rows},
    ) == (
        Verdict.EXPLAINED,
        {"late"},
    )


def test_a_version_that_was_vacuumed_is_no_verdict_on_the_data(lab_copy: Lab) -> None:
    for file in dimension.open_dimension(lab_copy.lake, "ads", 0).table.file_uris():
        Path(file.removeprefix("file://")).unlink()

    run = recompute.recompute_windows(lab_copy.lake, start=moment(0), end=moment(130))
    report = lab_copy.reconcile()

    assert run is not None
    assert {span.instead_of for span in run.dimensions["ads"]} == {0, None}
    assert (report.finding.verdict, report.finding.exit_code) == (Verdict.NOT_COMPARABLE, 2)
    assert report.finding.seal.breaches[0].code == "dimension"
    assert "version 0" in report.finding.seal.breaches[0].message
    # Batch runs at one cut whose records were joined otherwise are no two answers to one question.
    assert verify_pipeline(lab_copy.lake, only=["N8"]).violations == ()


def test_a_version_with_a_key_twice_ends_the_driver_and_refuses_the_next_one(lab_copy: Lab) -> None:
    write(lab_copy.settings, 2)
    epoch = rig.records(lab_copy.lake)[-1].epoch
    events = [Event(id=2000 + i, minute=140 + i / 60, key="a", partition=i % 2) for i in range(50)]

    with pytest.raises(LakeError, match=r"expected each key \(ad\) once, got 1 key") as ended:
        lab_copy.drain(events, writes=TWICE, after_epoch=epoch + 1)
    with pytest.raises(LakeError, match=r"expected each key \(ad\) once, got 1 key"):
        lab_copy.drain([])

    assert (ended.value.runbook, rig.records(lab_copy.lake)[-1].epoch) == (
        "DimensionUnusable",
        epoch + 1,
    )
