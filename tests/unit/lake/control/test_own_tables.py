"""Which tables of a team's own jobs people read in each stage."""

from dataclasses import replace

import pytest

from cutover.definition import BatchJob, Delta, Postgres, SparkStream
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.policy import Stage
from cutover.lake.control.served import describe_own_tables
from tests.support.history.watch_facts import PIPELINE

STREAM = SparkStream(table=Delta("/lake/hourly"), checkpoint="/checkpoint", output_mode="append")
FOLLOWED = replace(PIPELINE, stream=STREAM)
BATCH_JOB = replace(PIPELINE, batch=BatchJob(table=Postgres(table="a.hourly", server="DB")))
BOTH = replace(BATCH_JOB, stream=STREAM)


S, B = "the streaming job's table /lake/hourly", "the batch job's table env:DB#a.hourly"
OWN = "Cutover's batch table"


@pytest.mark.parametrize(
    ("pipeline", "stage", "sentence"),
    [
        (PIPELINE, Stage.LAMBDA, None),
        (BOTH, Stage.LAMBDA, f"In LAMBDA, {B} serves windows up to its position, {S} later ones."),
        (FOLLOWED, Stage.LAMBDA, f"In LAMBDA, {OWN} serves windows that it has computed, {S} later ones."),
        (BATCH_JOB, Stage.SHADOW, f"In SHADOW, Cutover's stream serves all windows; {B} is compared with it."),
        (BOTH, Stage.SHADOW, f"In SHADOW, {S} serves all windows; {B} is compared with that table."),
        (
            BOTH,
            Stage.KAPPA,
            f"In KAPPA, {S} serves all windows; {B} is no longer compared, so that the batch job can be retired.",
        ),
        (FOLLOWED, Stage.KAPPA, f"In KAPPA, {S} serves all windows; {OWN} is no longer computed."),
    ],
)
def test_the_tables_of_own_jobs_are_named_by_stage(pipeline: Pipeline, stage: Stage, sentence: str | None) -> None:
    assert describe_own_tables(pipeline, stage) == sentence
