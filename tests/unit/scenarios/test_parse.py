"""Scenario files: what each field means, and what is refused before anything runs."""

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cutover.definition import Accumulation, Avg, Count, EachEpoch, Max, Repeat, Sum
from cutover.definition.measures import Measure
from cutover.definition.windows import FOREVER
from cutover.errors import DefinitionError
from cutover.panes.model import Estimator, Ideal, Step
from cutover.scenarios.model import Engine
from cutover.scenarios.parse import parse, parse_file
from cutover.scenarios.times import Style

SECOND = 1_000_000
NOON = 12 * 3600 * SECOND
POINT: Mapping[str, Any] = {"event_time": "12:00:26", "processing_time": "12:05:19", "value": 5}
GOOD: Mapping[str, Any] = {
    "window": "FixedWindows.of(2 MINUTES)",
    "trigger": "Repeat(AtWatermark())",
    "accumulation": "accumulating",
    "engine": "streaming",
    "points": [POINT],
    "watermark_steps": [{"processing_time": "12:06:00", "watermark": "12:02:00"}],
}


def parsed(**changed: Any) -> Any:
    return parse({**GOOD, **changed}, default_title="x")


def without(*names: str) -> dict[str, Any]:
    return {name: value for name, value in GOOD.items() if name not in names}


def test_point_is_a_row() -> None:
    (row,) = parsed(points=[{**POINT, "key": "a", "late": False}]).setting.rows

    assert (row.event_time, row.processing_time) == (NOON + 26 * SECOND, NOON + 319 * SECOND)
    assert (row.key, row.columns) == ("a", {"value": 5})


def test_milliseconds_count_from_noon_where_no_text_is_given() -> None:
    (row,) = parsed(points=[{"event_ms": 26_640, "processing_ms": 319_980, "value": 5}]).setting.rows

    assert (row.event_time, row.processing_time) == (NOON + 26_640_000, NOON + 319_980_000)


def test_milliseconds_count_from_the_origin() -> None:
    point = {"event_ms": -1, "processing_ms": 2, "value": 5}
    (row,) = parsed(points=[point], origin="1970-01-01T00:00:00Z").setting.rows

    assert (row.event_time, row.processing_time) == (-1_000, 2_000)


def test_text_counts_where_milliseconds_stand_beside_it() -> None:
    (row,) = parsed(points=[{**POINT, "event_ms": 26_640, "processing_ms": 319_980}]).setting.rows

    assert row.event_time == NOON + 26 * SECOND


def test_dates_are_read_and_written_as_dates() -> None:
    point = {"event_time": "2024-03-31T00:00:00+01:00", "processing_time": "2024-03-31T00:00:00Z", "value": 1}
    scenario = parsed(
        points=[point], watermark_steps=[{"processing_time": "2024-04-01T00:00:00Z", "watermark": "+inf"}]
    )

    assert scenario.style is Style.DATE
    assert scenario.setting.rows[0].event_time == 1_711_839_600 * SECOND


@pytest.mark.parametrize(
    ("given", "measure"),
    [
        ("sum", Sum("value")),
        ("count", Count()),
        ("max", Max("value")),
        ({"sum": "clicks"}, Sum("clicks")),
        ({"avg": "clicks"}, Avg("clicks")),
    ],
)
def test_measure(given: object, measure: Measure) -> None:
    assert parsed(measure=given, points=[{**POINT, "clicks": 3}]).setting.measure == measure


def test_count_looks_at_no_value() -> None:
    point = {name: value for name, value in POINT.items() if name != "value"}

    assert parsed(measure="count", points=[point]).setting.rows[0].columns == {}


@pytest.mark.parametrize(
    ("text", "accumulation"),
    [
        ("discarding", Accumulation.DISCARDING),
        ("Accumulating", Accumulation.ACCUMULATING),
        ("accumulatingAndRetracting", Accumulation.RETRACTING),
        ("accumulating and retracting (all of them)", Accumulation.RETRACTING),
        ("retracting", Accumulation.RETRACTING),
    ],
)
def test_accumulation(text: str, accumulation: Accumulation) -> None:
    assert parsed(accumulation=text).setting.accumulation is accumulation


def test_batch_needs_no_accumulation_and_knows_everything_once_all_rows_are_in() -> None:
    setting = parse({**without("accumulation"), "engine": "batch (bounded)"}, default_title="x").setting

    assert setting.watermark == (Step(processing_time=NOON + 319 * SECOND, watermark=FOREVER),)


def test_watermark_steps_may_reach_the_end_of_time() -> None:
    steps = [{"processing_time": "12:06", "watermark": "-inf"}, {"processing_ms": 400_000, "watermark_ms": 1_000}]
    found = parsed(watermark_steps=[*steps, {"processing_time": "12:09:00", "watermark": "+inf"}]).setting.watermark

    assert [step.watermark for step in found] == [-FOREVER, NOON + SECOND, FOREVER]
    assert found[1].processing_time == NOON + 400 * SECOND


def test_estimator_is_a_distance_behind_the_newest_event() -> None:
    given = {**without("watermark_steps"), "watermark_estimator": {"out_of_orderness": "30 SECONDS"}}

    assert parse(given, default_title="x").setting.watermark == Estimator(out_of_orderness=30 * SECOND)


@pytest.mark.parametrize("ideal", [True, "straight line processing time = event time"])
def test_ideal_watermark(ideal: object) -> None:
    given = {**without("watermark_steps"), "watermark_ideal": ideal}

    assert parse(given, default_title="x").setting.watermark == Ideal()


def test_steps_count_before_an_ideal_watermark() -> None:
    assert isinstance(parsed(watermark_ideal="a line").setting.watermark, tuple)


@pytest.mark.parametrize(("given", "micros"), [(None, None), ("infinite", None), ("1 MINUTE", 60 * SECOND)])
def test_allowed_lateness(given: object, micros: int | None) -> None:
    assert parsed(allowed_lateness=given).setting.allowed_lateness == micros


@pytest.mark.parametrize(
    ("changed", "ends"),
    [
        ({"engine": "micro-batch (boundaries 12:06, 12:07:30)"}, [360, 450]),
        ({"engine": "micro-batch (every 1 MINUTE)"}, [360]),
        ({"engine": "micro-batch", "epochs": ["12:06:00", "12:07:00"]}, [360, 420]),
        ({"engine": "micro-batch", "epochs": "every 2 minutes"}, [360]),
        ({"engine": "micro-batch", "trigger": "default, five-minute micro-batches"}, [600]),
        ({"engine": None, "trigger": "default, one-minute micro-batches"}, [360]),
    ],
)
def test_micro_batches_end_where_it_is_said(changed: dict[str, Any], ends: list[int]) -> None:
    scenario = parsed(**changed)

    assert scenario.engine is Engine.MICRO_BATCH
    assert scenario.setting.trigger == Repeat(EachEpoch())
    assert [(end - NOON) // SECOND for end in scenario.setting.epochs] == ends


def test_streaming_engine_may_have_epochs() -> None:
    assert len(parsed(trigger="Repeat(EachEpoch())", epochs="every 1 MINUTE").setting.epochs) == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"acumulation": "x"}, r"unknown field `acumulation`: .*\nHint: did you mean `accumulation`"),
        ({"accumulation": "both"}, "accumulation: expected discarding, accumulating, or .* got `both`"),
        ({"accumulation": "n/a (single pane)"}, "accumulation: expected discarding"),
        (
            {"engine": "stream"},
            r"engine: expected one of streaming, micro-batch, batch, got `stream`.\nHint: .*`streaming`",
        ),
        ({"engine": 5}, "engine: expected a text, got `5`"),
        ({"engine": "micro-batch"}, "engine: expected when micro-batches end"),
        ({"engine": "micro-batch (often)"}, "engine: expected `boundaries` and times, or `every 1 MINUTE`"),
        ({"engine": "micro-batch (boundaries 12:07, 12:06)"}, "engine: boundaries: expected ascending times"),
        ({"engine": "micro-batch (boundaries noon)"}, r"engine: boundaries\[0\]: expected a time"),
        ({"engine": "micro-batch (every 0 MINUTES)"}, "engine: expected epochs longer than nothing"),
        ({"engine": "micro-batch (every 1 MINUTE)", "trigger": "Repeat(AtCount(2))"}, "trigger: expected `default` or"),
        ({"epochs": "often"}, "epochs: expected a list of times, or `every 1 MINUTE`, got `often`"),
        ({"epochs": {"every": 1}}, "epochs: expected a list"),
        ({"measure": "median"}, "measure: expected one of sum, min, max, avg, count, or an object"),
        ({"measure": {"sum": "value", "max": "value"}}, "measure: expected one of"),
        ({"measure": {"sum": 5}}, "measure: expected one of"),
        ({"window": None}, "window: expected a text, got nothing"),
        ({"window": "Windows.of(2 MINUTES)"}, "window: unknown word `Windows.of`"),
        ({"trigger": "Repeat(Never())"}, "trigger: unknown word `Never`"),
        ({"trigger": "Repeat(AtCount(0))"}, "expected at least one row"),
        ({"trigger": "Repeat(EachEpoch())"}, "trigger: expected epochs that end"),
        ({"window": "GlobalWindow"}, "expected one that can fire, got one that waits for the watermark"),
        ({"watermark_steps": []}, "trigger: expected a watermark, since it can never fire without one"),
        ({"watermark_steps": [{"processing_time": "12:06", "watermark": "noon"}]}, r"watermark_steps\[0\].watermark"),
        ({"watermark_steps": [{"processing_time": "12:06"}]}, r"watermark_steps\[0\].watermark: expected a time"),
        ({"watermark_steps": [{"at": "12:06"}]}, r"watermark_steps\[0\]: unknown field `at`"),
        ({"watermark_steps": {"at": "12:06"}}, "watermark_steps: expected a list"),
        (
            {
                "watermark_steps": [
                    {"processing_time": "12:06", "watermark": "12:05"},
                    {"processing_time": "12:07", "watermark": "12:04"},
                ]
            },
            r"watermark_steps\[1\]: expected a step that goes neither back .* got `12:04:00` at `12:07:00` behind",
        ),
        ({"points": None}, "points: expected a list, got nothing"),
        ({"points": [5]}, r"points\[0\]: expected an object"),
        ({"points": [{}]}, r"points\[0\]\.event_time: expected a time"),
        ({"points": [{**POINT, "processing_time": "12:65"}]}, r"points\[0\]\.processing_time: expected a time"),
        (
            {"points": [{**POINT, "processing_time": "+inf"}]},
            r"points\[0\]\.processing_time: expected a time with an end",
        ),
        (
            {"points": [{**POINT, "processing_time": "2024-01-01T00:00:00Z"}]},
            r"points\[0\]\.processing_time: expected a time by the clock, as the others",
        ),
        ({"points": [{"event_ms": "5", "processing_ms": 5}]}, r"points\[0\]\.event_ms: expected a whole number"),
        ({"points": [{**POINT, "value": "5"}]}, r"points\[0\]\.value: expected a number or null, got `5`"),
        ({"points": [{**POINT, "value": Decimal("1e38")}]}, r"points\[0\]\.value: expected a number below 10\^38"),
        ({"points": [{**POINT, "value": True}]}, r"points\[0\]\.value: expected a number or null"),
        (
            {"points": [POINT], "measure": {"sum": "clicks"}},
            r"points\[0\]\.clicks: expected a number, which the measure",
        ),
        ({"points": [{**POINT, "key": 1.5}]}, r"points\[0\]\.key: expected a text, a whole number or null"),
        ({"points": [{**POINT, "key": False}]}, r"points\[0\]\.key: expected a text, a whole number or null"),
        ({"allowed_lateness": {}}, "allowed_lateness: expected a text"),
        ({"allowed_lateness": 5}, "allowed_lateness: expected a text"),
        ({"allowed_lateness": "soon"}, "`allowed_lateness`: expected a whole number and a unit"),
        ({"origin": "+inf"}, "origin: expected a time with an end"),
        ({"figure": "six"}, "figure: expected a whole number"),
        ({"title": 6}, "title: expected a text"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        parsed(**changed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"watermark_estimator": {"out_of_orderness": "x"}}, "out_of_orderness`: expected a whole number and a unit"),
        ({"watermark_estimator": {"lag": "1 MINUTE"}}, "watermark_estimator: unknown field `lag`"),
        ({"watermark_estimator": "1 MINUTE"}, "watermark_estimator: expected an object"),
        ({"watermark_ideal": False}, "watermark_ideal: expected true, or a text"),
        (
            {"watermark": [{"event_time": "12:00"}]},
            "watermark: expected `watermark_steps`.*\nHint: a curve is not read",
        ),
        ({}, "trigger: expected a watermark, since it can never fire without one"),
    ],
)
def test_watermark_that_does_not_fit_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        parse({**without("watermark_steps"), **changed}, default_title="x")


def written(path: Path, value: object) -> Path:
    file = path / "scenario.json"
    file.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return file


def test_case_is_taken_out_of_a_file_with_several(tmp_path: Path) -> None:
    cases = [{"figure": 1, "title": "one"}, {"figure": 2, "title": "two", "accumulation": "discarding"}]
    file = written(tmp_path, {**GOOD, "cases": cases})

    assert parse_file(file, case=1).title == "one"
    assert parse_file(file, case=2).setting.accumulation is Accumulation.DISCARDING


@pytest.mark.parametrize("shape", [{"cases": [{"figure": 3}]}, {"case": {"figure": 3}}, {"figure": 3}])
def test_only_case_of_a_file_needs_no_number(tmp_path: Path, shape: dict[str, Any]) -> None:
    assert parse_file(written(tmp_path, {**GOOD, **shape})).figure == 3


def test_title_is_that_of_the_file_if_none_is_given(tmp_path: Path) -> None:
    assert parse_file(written(tmp_path, GOOD)).title == "scenario"


def test_numbers_with_a_point_are_exact(tmp_path: Path) -> None:
    file = written(tmp_path, {**GOOD, "points": [{**POINT, "value": 0.1}]})

    assert parse_file(file).setting.rows[0].columns == {"value": Decimal("0.1")}


@pytest.mark.parametrize(
    ("content", "case", "message"),
    [
        (
            {**GOOD, "cases": [{"figure": 1}, {"figure": 2}]},
            None,
            r"--case: expected .* of 2 cases \(1, 2\), got `none`",
        ),
        ({**GOOD, "cases": [{"figure": 1}, {"figure": 2}]}, 3, "got `3`"),
        ({**GOOD, "figure": 6}, 7, "got `7`"),
        ({**GOOD, "cases": {}}, None, "cases: expected a list"),
        ({**GOOD, "case": []}, None, "case: expected an object"),
        ("{", None, "expected JSON, got"),
        ("[]", None, "Scenario `scenario.json`: expected an object"),
        ('{"points": [NaN]}', None, "got: NaN, which is not JSON"),
        ('{"points": [], "points": []}', None, "got: the field `points` twice"),
        ("[" * 100_000, None, "expected JSON, got"),
        ({**GOOD, "engine": "x"}, None, "Scenario `scenario.json`: engine: expected one of"),
    ],
)
def test_file_that_does_not_fit_is_refused_by_its_name(
    tmp_path: Path, content: object, case: int | None, message: str
) -> None:
    with pytest.raises(DefinitionError, match=message) as refused:
        parse_file(written(tmp_path, content), case=case)
    assert "`scenario.json`" in str(refused.value)


def test_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        DefinitionError, match=r"Scenario `none.json`: expected a file that can be read, got: No such file"
    ):
        parse_file(tmp_path / "none.json")
