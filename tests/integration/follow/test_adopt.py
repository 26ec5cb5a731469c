"""Definitions that `cutover adopt` writes from what jobs of teams have left behind: they reproduce the jobs' tables."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cutover.adoption.adopt import Adoption, AdoptionRequest, adopt
from cutover.adoption.definition_file import render_adoption
from cutover.adoption.draft import Question, Stated
from cutover.definition import Count, Max, Pipeline, Sum
from cutover.definition.loading import catalogue
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.settings import Settings
from tests.integration.follow.test_follow import EVENTS, KINDS, Rig, compare
from tests.integration.streaming.rig import fast, make_topic, send


@pytest.fixture
def rig(spark: SparkSession, kafka_settings: Settings, topic_name: str, tmp_path: Path) -> Rig:
    settings = fast(kafka_settings)
    make_topic(settings, topic_name, partitions=2)
    send(settings, topic_name, EVENTS)
    return Rig(spark=spark, settings=settings, topic=topic_name, place=tmp_path / "job")


def take_first(question: Question) -> str:
    return question.choices[0]


def adopt_job(rig: Rig, stated: Stated | None = None) -> tuple[Adoption, Pipeline]:
    """Adopt the job of a rig, and load the definition that is written."""
    request = AdoptionRequest(
        name="clicks",
        checkpoint=f"{rig.place}/checkpoint",
        stream=f"{rig.place}/table",
        topic=None,
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
def test_a_windowed_job_is_adopted_and_its_table_is_reproduced(rig: Rig, kind: str) -> None:
    rig.run(kind)
    adoption, pipeline = adopt_job(rig)

    assert adoption.verification is not None
    assert (adoption.verification.is_exact, adoption.verification.differences) == (True, ())
    assert pipeline.measures == {"n": Count(), "ids": Sum("id"), "newest": Max("id")}
    finding = compare(PipelineLake(rig.settings, pipeline))
    (job,) = finding.jobs
    assert (job.rows, job.different) == (14, 0)
    assert finding.verdict is (Verdict.CONSISTENT if kind == "complete" else Verdict.EXPLAINED)
