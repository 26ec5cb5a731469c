"""Tables of jobs for which no SQL is drafted, with the reason."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutover.definition import Count, Delta, Sessions, SparkStream
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.job_repair import draft_job_repair
from cutover.settings import Settings
from tests.support.history.watch_facts import PIPELINE


def follow(pipeline: Pipeline = PIPELINE, **fields: Any) -> Pipeline:
    defaults: dict[str, Any] = {"output_mode": "append"} | fields
    return replace(pipeline, stream=SparkStream(table=Delta("/table"), checkpoint="/checkpoint", **defaults))


SESSIONS = replace(PIPELINE, window=Sessions(gap="10 minutes"), measures={"n": Count()})


@pytest.mark.parametrize(
    ("pipeline", "reason"),
    [
        (follow(output_mode="complete"), "a table that the job replaces with every batch"),
        (follow(SESSIONS), "sessions of which the table may have several rows"),
        (follow(row_per_record=True), "a row per record without an id in the key of the definition"),
        (PIPELINE, "expected `--job` of a pipeline with a job of your own, got `streaming`"),
    ],
)
def test_a_streaming_table_whose_rows_cannot_be_addressed_is_rejected(
    pipeline: Pipeline, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(DefinitionError, match=reason):
        draft_job_repair(PipelineLake(Settings(home=tmp_path), pipeline), "streaming")
