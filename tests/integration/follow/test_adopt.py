"""Definitions that `cutover adopt` writes from what jobs of teams have left behind: they reproduce the jobs' tables."""

import pytest

from cutover.adoption.adopt import Adoption, AdoptionRequest, adopt
from cutover.adoption.definition_file import render_adoption
from cutover.adoption.draft import Question, Stated
from cutover.definition import Count, Max, Pipeline, Sum
from cutover.definition.loading import catalogue
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from tests.integration.follow.test_follow import KINDS
from tests.support.followed_jobs import JobTopic, compare


def take_first(question: Question) -> str:
    return question.choices[0]


def adopt_job(rig: JobTopic, stated: Stated | None = None) -> tuple[Adoption, Pipeline]:
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
def test_a_windowed_job_is_adopted_and_its_table_is_reproduced(rig: JobTopic, kind: str) -> None:
    rig.run(kind)
    adoption, pipeline = adopt_job(rig)

    assert adoption.verification is not None
    assert (adoption.verification.is_exact, adoption.verification.differences) == (True, ())
    assert pipeline.measures == {"n": Count(), "ids": Sum("id"), "newest": Max("id")}
    finding = compare(PipelineLake(rig.settings, pipeline))
    (job,) = finding.jobs
    assert (job.rows, job.different) == (14, 0)
    assert finding.verdict is (Verdict.CONSISTENT if kind == "complete" else Verdict.EXPLAINED)
