"""Encoded definitions: they decode to equal definitions with the same fingerprints."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutover.definition import (
    Accumulation,
    AfterCount,
    AfterDelay,
    AtWatermark,
    Audit,
    Change,
    EachEpoch,
    Every,
    Expect,
    Join,
    Pipeline,
    Policy,
    Repeat,
    RepeatUntil,
    SelfJoin,
    Sequence,
    Sql,
    Topic,
    Until,
)
from cutover.definition.compile.fingerprint import describe_version, result_fingerprint
from cutover.definition.loading import catalogue
from cutover.definition.model.triggers import Trigger
from cutover.errors import DefinitionError
from cutover.lake.recorded_definitions import decode_definition, encode_definition
from cutover.settings import Settings
from tests.support.log.logs import WINDOWS
from tests.support.rows.measured import PIPELINE

OTHER = Topic(name="u", schema="at timestamp, k string", event_time="at")
TRIGGERS: tuple[Trigger, ...] = (
    EachEpoch(),
    AfterDelay("5 seconds"),
    AtWatermark(early=Every("1 minute"), late=AfterCount(2)),
    AtWatermark(always=True),
    RepeatUntil(AfterCount(4), AtWatermark()),
    Sequence(Until(Repeat(AfterCount(2)), AtWatermark()), Repeat(EachEpoch())),
)
CHANGES: dict[str, dict[str, Any]] = {
    "join": {"join": Join(right=OTHER, on={"k": "k"}, where="k <> ''", derive={"x": "k"})},
    "self join": {"join": SelfJoin(on=("k",), left="v > 0", right="v < 0")},
    "contract": {"contract": (Expect(type="e", arguments={"a": [1, (2, None)], "b": {"c": 1.5}, "d": True}),)},
    "policy": {"policy": Policy(hazards=("restart", "peak"), audit=Audit(share=0.5), max_divergence=0.1)},
    "no audit": {"policy": Policy(audit=None)},
    "change": {"change": Change(of="old", why="because", rows=("added",), within="k = 'a'")},
    "sql": {"batch": Sql("team.sql"), "file": Path("/somewhere/p.py")},
    "panes": {"trigger": TRIGGERS[2], "accumulation": Accumulation.RETRACTING, "changelog": "out"},
    **{f"window {window}": {"window": window} for windows in WINDOWS.values() for window in windows},
    **{f"trigger {trigger}": {"trigger": trigger} for trigger in TRIGGERS},
}


def through_json(pipeline: Pipeline) -> Pipeline:
    return decode_definition(json.loads(json.dumps(encode_definition(pipeline))))


@pytest.mark.parametrize("change", CHANGES)
def test_definition_is_the_same_after_it_was_recorded(change: str) -> None:
    pipeline = replace(PIPELINE, **CHANGES[change])

    decoded = through_json(pipeline)

    assert (decoded, decoded.file) == (pipeline, pipeline.file)
    assert describe_version(decoded) == describe_version(pipeline)


def test_the_projects_own_definitions_are_the_same_after_they_were_recorded() -> None:
    settings = Settings(pipelines=Path(__file__).parents[4] / "pipelines")
    for pipeline in catalogue.read_catalogue(settings).pipelines.values():
        decoded = through_json(pipeline)

        assert (decoded, decoded.file) == (pipeline, pipeline.file)
        assert result_fingerprint(decoded) == result_fingerprint(pipeline)


@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        {"items": []},
        {"class": "Path", "items": {}},
        {"class": "Pipeline", "items": {"name": "p"}},
        {"class": "Topic", "items": {"name": "t", "schema": "k string", "event_time": "at"}},
        {"class": "Topic", "items": {"field of another release": 1}},
        {"class": "Sequence", "items": {"parts": []}},
    ],
)
def test_invalid_recorded_definition_is_rejected(raw: object) -> None:
    with pytest.raises(DefinitionError):
        decode_definition(raw)


def test_argument_without_a_json_form_is_rejected() -> None:
    odd = Expect(type="e", arguments={"a": object()})

    with pytest.raises(DefinitionError, match="got object"):
        encode_definition(replace(PIPELINE, contract=(odd,)))
