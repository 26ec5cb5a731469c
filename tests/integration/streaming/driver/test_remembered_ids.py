"""N4 of a stream that remembers ids: the remembered ids are compared with the log, not with themselves."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cutover.definition import Pipeline
from cutover.lake.control import versions
from cutover.lake.tables.schemas import epoch_log_schema
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.verify.facts.facts import CheckState
from cutover.reconcile.verify.record import verify_pipeline
from cutover.settings import Settings
from cutover.streaming import driver
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event
from tests.support.comparison.planted import replace_rows

Ids = list[dict[str, Any]]
EVENTS = [Event(id=i % 7, minute=i % 7, key="ab"[i % 2]) for i in range(20)]


def drain_with_ids(settings: Settings, topic: str) -> Pipeline:
    """Return a drained stream over records of which most came before."""
    plain_pipeline = rig.pipeline(topic)
    pipeline = replace(plain_pipeline, source=replace(plain_pipeline.source, record_id="id"))
    rig.send(settings, topic, EVENTS)
    driver.run_driver(PipelineLake(settings, pipeline), until="drain")
    return pipeline


def edit_ids(lake: PipelineLake, edit: Callable[[Ids], Ids]) -> None:
    """Put edited ids in place of those that the epoch log remembers."""
    version, schema = versions.find_current_version(lake), epoch_log_schema(lake.pipeline)
    assert version is not None
    rows = DeltaTable(version.uri).to_pyarrow_table().cast(schema).to_pylist()
    ids = [row | {"_ids": edit(row["_ids"])} for row in rows if row["_kind"] == "ids" and row["_ids"]]
    assert ids
    replace_rows(version.uri, pa.Table.from_pylist(ids, schema=schema), kind="ids")


@pytest.mark.quick
@pytest.mark.parametrize(
    ("edit", "text"),
    [
        pytest.param(lambda ids: ids[1:], "to be retained, got none", id="forgotten"),
        pytest.param(lambda ids: [*ids, ids[0] | {"id": 4711}], "no record has it", id="made up"),
    ],
)
def test_ids_are_what_the_log_gives(quick: Settings, topic: str, edit: Callable[[Ids], Ids], text: str) -> None:
    pipeline = drain_with_ids(quick, topic)
    lake = PipelineLake(quick, pipeline)
    sound = verify_pipeline(lake, only=["N4"], exhaustive=True)

    edit_ids(lake, edit)

    verification = verify_pipeline(lake, only=["N4"], exhaustive=True)
    assert (sound.checks["N4"].state, verification.checks["N4"].state) == (CheckState.HELD, CheckState.VIOLATED)
    assert any(text in violation.text for violation in verification.violations)
