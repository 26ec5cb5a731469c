"""Definitions that `cutover adopt` writes from what jobs of teams have left behind: they reproduce the jobs' tables."""

import shutil

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from cutover.adoption.adopt import Adoption, AdoptionRequest, adopt
from cutover.adoption.draft import Question, Stated
from cutover.cli.adopt import render_adoption
from cutover.definition import BatchJob, Count, Delta, Max, Pipeline, Postgres, Sum
from cutover.definition.loading import catalogue
from cutover.errors import DefinitionError, LakeError, LogError
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.positions.spark_checkpoint import read_checkpoint
from cutover.reconcile.result.finding import Verdict
from tests.integration.follow.test_follow import KINDS
from tests.support.batch_jobs import count_hours, encode_cut, write_delta, write_postgres
from tests.support.followed_jobs import LATE, JobTopic, compare, list_late
from tests.support.servers.postgres import running_server


def take_first(question: Question) -> str:
    return question.choices[0]


def adopt_job(
    rig: JobTopic, stated: Stated | None = None, batch: str | None = None, **parts: str
) -> tuple[Adoption, Pipeline]:
    """Adopt the job of a rig, and load the definition that is written."""
    request = AdoptionRequest(
        name="clicks",
        checkpoint=f"{rig.place}/{parts.get('name', 'checkpoint')}",
        stream=f"{rig.place}/table",
        batch=batch,
        topic=parts.get("topic"),
        time_format=None,
        records=10_000,
        stated=stated or Stated(),
    )
    adoption = adopt(rig.settings, request, take_first, lambda _: None)
    file = rig.place / "clicks.py"
    file.write_text(render_adoption(adoption), encoding="utf-8")
    (pipeline,) = catalogue.load_file(file)
    return adoption, pipeline


@pytest.mark.quick("merge")
@pytest.mark.parametrize("kind", KINDS)
def test_a_windowed_job_is_adopted_and_its_table_is_reproduced(rig: JobTopic, kind: str) -> None:
    rig.run(kind)
    adoption, pipeline = adopt_job(rig)

    assert adoption.verification is not None
    assert (adoption.verification.is_exact, adoption.verification.differences) == (True, ())
    assert pipeline.measures == {"n": Count(), "ids": Sum("id"), "newest": Max("id")}
    finding = compare(PipelineLake(rig.settings, pipeline))
    (job,) = finding.jobs
    assert (job.rows, job.different, job.cells, job.foreign_versions) == (14, 0, (), ())
    assert finding.verdict is (Verdict.CONSISTENT if kind == "complete" else Verdict.EXPLAINED)
    assert list_late(finding) == (set() if kind == "complete" else LATE)


def test_a_batch_job_is_adopted_with_the_streaming_job(rig: JobTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.run("merge")
    cut = encode_cut(rig.topic, {0: 22, 1: 25})
    hours = count_hours(rig.spark, rig.settings, rig.topic, cut)
    write_delta(hours, rig.place / "nightly", cut)
    adoption, pipeline = adopt_job(rig, batch=f"{rig.place}/nightly")

    assert adoption.batch is not None
    assert adoption.batch.check is not None
    assert (adoption.batch.check.is_exact, adoption.batch.check.cells > 20) == (True, True)
    assert pipeline.batch == BatchJob(table=Delta(f"{rig.place}/nightly"))
    finding = compare(PipelineLake(rig.settings, pipeline))
    assert [(job.side, job.level) for job in finding.jobs] == [("streaming", "reproduced"), ("batch", "reproduced")]

    write_delta(hours.where("n <> 2"), rig.place / "nightly", cut)
    changed, _ = adopt_job(rig, batch=f"{rig.place}/nightly")
    assert changed.batch is not None
    assert (changed.is_different, "only" in changed.batch.describe()) == (True, True)
    with running_server() as address:
        monkeypatch.setenv("HOURLY_DB", address)
        write_postgres(hours, address, cut)
        adoption, pipeline = adopt_job(rig, batch="env:HOURLY_DB#public.hourly")
    assert adoption.batch is not None
    assert adoption.batch.check is not None
    assert adoption.batch.check.is_exact
    table = Postgres(table="public.hourly", server="HOURLY_DB")
    assert pipeline.batch == BatchJob(table=table, columns={"window_start": "hour", "ids": "total"})


def replace_table(rig: JobTopic, rows: pa.Table) -> None:
    """Replace the table by one with other contents, whose only commit is marked as that of the query's newest batch."""
    checkpoint = read_checkpoint(f"{rig.place}/checkpoint")
    assert checkpoint.newest_committed is not None
    mark = Transaction(checkpoint.query_id, checkpoint.newest_committed.number)
    shutil.rmtree(rig.place / "table")
    write_deltalake(str(rig.place / "table"), rows, commit_properties=CommitProperties(app_transactions=[mark]))


def test_what_cannot_be_adopted_is_rejected_with_the_reason(rig: JobTopic) -> None:
    rig.run("append", lambda rows: rows.where("id <> 7 AND id <> 11"))
    adoption, _ = adopt_job(rig)
    assert adoption.verification is not None
    assert (adoption.is_different, len(adoption.verification.differences) > 0) == (True, True)

    with pytest.raises(DefinitionError, match=r"--topic: expected `.*`, which the checkpoint names, got `other`"):
        adopt_job(rig, topic="other")
    with pytest.raises(
        DefinitionError, match=r"--measure total: expected a column of the table, it has n, ids, newest"
    ):
        adopt_job(rig, Stated(measures={"total": "Sum(id)"}))
    with pytest.raises(DefinitionError, match=r"--event-time|with a time `k`"):
        adopt_job(rig, Stated(event_time="k"))
    with pytest.raises(LakeError, match="found no file `metadata`"):
        adopt_job(rig, name="missing")
    shutil.copytree(rig.place / "checkpoint", rig.place / "other")
    metadata = rig.place / "other" / "metadata"
    metadata.write_text(metadata.read_text().replace('"id":"', '"id":"0'))
    with pytest.raises((DefinitionError, LakeError), match=r"as its only one|is that of a batch"):
        adopt_job(rig, name="other")
    shutil.copytree(rig.place / "checkpoint", rig.place / "partial")
    (rig.place / "partial" / "offsets" / "1").unlink()
    with pytest.raises(LakeError, match=r"`offsets/1` is missing"):
        adopt_job(rig, name="partial")
    for rows, reason in (
        (pa.table({"window_start": pa.array([], pa.timestamp("us")), "k": pa.array([], pa.string())}), "is empty"),
        (pa.table({"a": [1], "k": ["a"]}), "column with the start of a window, it has a, k"),
    ):
        replace_table(rig, rows)
        with pytest.raises(DefinitionError, match=reason):
            adopt_job(rig)
    LogClient(rig.settings).delete_topic(rig.topic)
    with pytest.raises(LogError, match=rig.topic):
        adopt_job(rig)
