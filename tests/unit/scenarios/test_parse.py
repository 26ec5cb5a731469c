"""Scenario files: what each field means, and what is refused before anything runs."""

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cutover.definition import (
    Accumulation,
    AfterCount,
    AfterDelay,
    AtWatermark,
    Avg,
    Count,
    Daily,
    EachEpoch,
    Every,
    Fixed,
    Global,
    Max,
    Min,
    Repeat,
    Sequence,
    Sessions,
    Sliding,
    Sum,
    Until,
)
from cutover.definition.measures import Measure
from cutover.definition.triggers import DEFAULT, Trigger
from cutover.definition.windows import FOREVER, Window
from cutover.errors import DefinitionError
from cutover.panes.model import Estimator, Ideal, Step
from cutover.scenarios import setting
from cutover.scenarios.parse import parse, parse_cases, parse_file
from cutover.scenarios.times import Style

SECOND = 1_000_000
NOON = 12 * 3600 * SECOND
POINT: Mapping[str, Any] = {"event_time": "12:00:26", "processing_time": "12:05:19", "value": 5}
STEP: Mapping[str, Any] = {"processing_time": "12:06:00", "watermark": "12:02:00"}
AT_WATERMARK: Mapping[str, Any] = {"type": "at_watermark"}
EPOCHS: Mapping[str, Any] = {"type": "repeat", "of": {"type": "each_epoch"}}
GOOD: Mapping[str, Any] = {
    "window": {"type": "fixed", "size": "2 minutes"},
    "trigger": {"type": "repeat", "of": AT_WATERMARK},
    "accumulation": "accumulating",
    "points": [POINT],
    "watermark": {"type": "steps", "steps": [STEP]},
}
EVERY: Mapping[str, Any] = {"type": "every", "period": "1 minute"}
COUNT: Mapping[str, Any] = {"type": "after_count", "rows": 2}
PANE: Mapping[str, Any] = {"window_start": "12:00", "window_end": "12:02", "value": 5}


def parsed(**changed: Any) -> Any:
    return parse({name: value for name, value in {**GOOD, **changed}.items() if value is not ...}, default_title="x")


def test_point_is_a_row() -> None:
    (row,) = parsed(points=[{**POINT, "key": "a"}]).setting.rows

    assert (row.event_time, row.processing_time) == (NOON + 26 * SECOND, NOON + 319 * SECOND)
    assert (row.key, row.columns) == ("a", {"value": 5})


def test_dates_are_read_and_written_as_dates() -> None:
    point = {"event_time": "2024-03-31T00:00:00+01:00", "processing_time": "2024-03-31T00:00:00Z", "value": 1}
    step = {"processing_time": "2024-04-01T00:00:00Z", "watermark": "+inf"}
    scenario = parsed(points=[point], watermark={"type": "steps", "steps": [step]})

    assert scenario.style is Style.DATE
    assert scenario.setting.rows[0].event_time == 1_711_839_600 * SECOND


@pytest.mark.parametrize(
    ("given", "measure"),
    [
        (..., Sum("value")),
        ("sum", Sum("value")),
        ("min", Min("value")),
        ("max", Max("value")),
        ("avg", Avg("value")),
        ("count", Count()),
    ],
)
def test_measure(given: object, measure: Measure) -> None:
    assert parsed(measure=given).setting.measure == measure


def test_count_looks_at_no_value() -> None:
    point = {name: value for name, value in POINT.items() if name != "value"}

    assert parsed(measure="count", points=[point]).setting.rows[0].columns == {}


@pytest.mark.parametrize("accumulation", Accumulation)
def test_accumulation(accumulation: Accumulation) -> None:
    assert parsed(accumulation=accumulation.value).setting.accumulation is accumulation


@pytest.mark.parametrize(
    ("given", "window"),
    [
        ({"type": "global"}, Global()),
        ({"type": "fixed", "size": "90 seconds"}, Fixed(seconds=90)),
        ({"type": "fixed", "size": "1 hour", "offset": "15 minutes"}, Fixed(hours=1, offset="15 minutes")),
        (
            {"type": "sliding", "size": "10 minutes", "every": "1 minute", "offset": "5 seconds"},
            Sliding(size=600 * SECOND, every=60 * SECOND, offset=5 * SECOND),
        ),
        ({"type": "sessions", "gap": "30 seconds"}, Sessions("30 seconds")),
        ({"type": "daily", "zone": "Europe/Berlin"}, Daily(zone="Europe/Berlin", offset="0 seconds")),
        ({"type": "daily", "zone": "UTC", "offset": "6 hours"}, Daily(zone="UTC", offset="6 hours")),
    ],
)
def test_window(given: dict[str, Any], window: Window) -> None:
    assert parsed(window=given, trigger=COUNT).setting.window == window


@pytest.mark.parametrize(
    ("given", "trigger"),
    [
        (..., DEFAULT),
        (AT_WATERMARK, AtWatermark()),
        (
            {"type": "at_watermark", "early": EVERY, "late": COUNT, "always": True},
            AtWatermark(early=Every("1 minute"), late=AfterCount(2), always=True),
        ),
        ({"type": "repeat", "of": {"type": "after_delay", "delay": "2 minutes"}}, Repeat(AfterDelay("2 minutes"))),
        ({"type": "until", "of": COUNT, "until": AT_WATERMARK}, Until(AfterCount(2), AtWatermark())),
        (
            {"type": "sequence", "parts": [COUNT, EVERY, {"type": "repeat", "of": COUNT}]},
            Sequence(AfterCount(2), Every("1 minute"), Repeat(AfterCount(2))),
        ),
    ],
)
def test_trigger(given: object, trigger: Trigger) -> None:
    assert parsed(trigger=given).setting.trigger == trigger


def test_bounded_input_knows_everything_once_all_rows_are_in() -> None:
    found = parsed(watermark={"type": "bounded"}).setting

    assert found.watermark == (Step(processing_time=NOON + 319 * SECOND, watermark=FOREVER),)


def test_bounded_input_may_be_known_later() -> None:
    found = parsed(watermark={"type": "bounded", "processing_time": "12:06:00"}).setting

    assert found.watermark == (Step(processing_time=NOON + 360 * SECOND, watermark=FOREVER),)


def test_watermark_steps_may_reach_the_end_of_time() -> None:
    steps = [{"processing_time": "12:06", "watermark": "-inf"}, {"processing_time": "12:09:00", "watermark": "+inf"}]

    found = parsed(watermark={"type": "steps", "steps": steps}).setting.watermark
    assert [step.watermark for step in found] == [-FOREVER, FOREVER]


@pytest.mark.parametrize(
    ("given", "watermark"),
    [
        ({"type": "estimator", "out_of_orderness": "30 seconds"}, Estimator(out_of_orderness=30 * SECOND)),
        ({"type": "ideal"}, Ideal()),
    ],
)
def test_watermark(given: dict[str, Any], watermark: object) -> None:
    assert parsed(watermark=given).setting.watermark == watermark


@pytest.mark.parametrize(("given", "micros"), [(..., None), ("1 minute", 60 * SECOND)])
def test_allowed_lateness(given: object, micros: int | None) -> None:
    assert parsed(allowed_lateness=given).setting.allowed_lateness == micros


@pytest.mark.parametrize(
    ("given", "ends"),
    [
        ({"type": "ends", "at": ["12:06", "12:07:30"]}, [360, 450]),
        ({"type": "every", "period": "1 minute"}, [360]),
        ({"type": "every", "period": "5 minutes"}, [600]),
    ],
)
def test_epochs_end_where_it_is_said(given: dict[str, Any], ends: list[int]) -> None:
    found = parsed(trigger=EPOCHS, epochs=given).setting

    assert found.trigger == Repeat(EachEpoch())
    assert [(end - NOON) // SECOND for end in found.epochs] == ends


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"acumulation": "x"}, r"^unknown field `acumulation`: expected one of .*\nHint: did you mean `accumulation`"),
        ({"accumulation": ...}, "^accumulation: expected discarding, accumulating or retracting, got nothing"),
        ({"accumulation": "both"}, "^accumulation: expected one of `discarding`, .* got `both`"),
        ({"engine": "streaming"}, "^unknown field `engine`: expected one of"),
        ({"window": ...}, "^window: expected where in event time: an object with a `type`, got nothing"),
        ({"window": "FixedWindows.of(2 MINUTES)"}, "^window: expected .*an object with a `type`, got `FixedWindows.of"),
        ({"window": {"size": "2 minutes"}}, "^window: expected .*an object with a `type`, got `{"),
        (
            {"window": {"type": "fixd", "size": "2 minutes"}},
            r"^window: expected one of .* got `fixd`.\nHint: did you mean `fixed`",
        ),
        ({"window": {"type": "fixed"}}, "^window.size: expected a whole number and a unit, such as .* got nothing"),
        (
            {"window": {"type": "fixed", "size": "2 MINUTES"}},
            "^window.size: expected a whole number and a unit.* got `2 MINUTES`",
        ),
        ({"window": {"type": "fixed", "size": 2}}, "^window.size: expected a whole number and a unit.* got `2`"),
        ({"window": {"type": "fixed", "size": "0 minutes"}}, "^window: expected 0 < every <= size, got"),
        (
            {"window": {"type": "fixed", "size": "1 minute", "every": "1 minute"}},
            "^window: unknown field `every`: expected one of type, size",
        ),
        (
            {"window": {"type": "sliding", "size": "1 minute", "every": "2 minutes"}},
            "^window: expected 0 < every <= size",
        ),
        (
            {"window": {"type": "daily", "zone": "Berlin"}},
            "^window: expected a name such as `Europe/Berlin`, got `Berlin`",
        ),
        ({"window": {"type": "sessions", "gap": "0 seconds"}}, "^window: expected more than nothing"),
        (
            {"trigger": "Repeat(AtPeriod(1 MINUTE)), unaligned"},
            "^trigger: expected .* an object with a `type`, got `Repeat",
        ),
        ({"trigger": {"type": "never"}}, "^trigger: expected one of .* as its `type`, got `never`"),
        ({"trigger": {"type": "repeat"}}, "^trigger.of: expected when in processing time: an object .* got nothing"),
        ({"trigger": {"type": "repeat", "of": COUNT, "unaligned": True}}, "^trigger: unknown field `unaligned`"),
        (
            {"trigger": {**EVERY, "delayed": "30 seconds"}},
            "^trigger: unknown field `delayed`: expected one of type, period",
        ),
        ({"trigger": {**AT_WATERMARK, "allowed_lateness": "1 minute"}}, "^trigger: unknown field `allowed_lateness`"),
        (
            {"trigger": {"type": "repeat", "of": {**COUNT, "rows": 0}}},
            "^trigger.of.rows: expected a whole number of rows, at least 1, got `0`",
        ),
        (
            {"trigger": {"type": "after_count", "rows": "2"}},
            "^trigger.rows: expected a whole number of rows, at least 1, got `2`",
        ),
        ({"trigger": {"type": "after_count", "rows": True}}, "^trigger.rows: expected a whole number of rows"),
        (
            {"trigger": {"type": "every", "period": "0 minutes"}},
            "^trigger: expected a period longer than nothing, got `0 minutes`",
        ),
        ({"trigger": {"type": "after_delay", "delay": "0 minutes"}}, "^trigger: expected a delay longer than nothing"),
        ({"trigger": {"type": "at_watermark", "always": 1}}, "^trigger.always: expected true or false, got `1`"),
        ({"trigger": {"type": "sequence", "parts": []}}, "^trigger.parts: expected a list of at least one trigger"),
        (
            {"trigger": {"type": "sequence", "parts": [COUNT, {"type": "every"}]}},
            r"^trigger.parts\[1\].period: expected a whole number and a unit.* got nothing",
        ),
        (
            {"trigger": {"type": "sequence", "parts": [GOOD["trigger"], COUNT]}},
            "^trigger: expected parts that end, got",
        ),
        (
            {"trigger": {"type": "until", "of": COUNT, "until": GOOD["trigger"]}},
            "^trigger.until: expected one of .* as its `type`, got `repeat`",
        ),
        (
            {"trigger": {"type": "until", "of": COUNT, "until": {**AT_WATERMARK, "late": COUNT}}},
            "^trigger: expected an end that fires once",
        ),
        (
            {"trigger": {"type": "at_watermark", "early": AT_WATERMARK}},
            "^trigger: expected a trigger that can fire before the end",
        ),
        ({"trigger": EPOCHS}, "^trigger: expected `epochs` beside it, .* got none.\nHint: "),
        ({"epochs": {"type": "every", "period": "1 minute"}}, "^epochs: expected a trigger with `each_epoch`"),
        ({"trigger": EPOCHS, "epochs": "every 1 MINUTE"}, "^epochs: expected when epochs end: an object with a `type`"),
        (
            {"trigger": EPOCHS, "epochs": {"type": "every", "period": "0 minutes"}},
            "^epochs.period: expected a period longer than nothing",
        ),
        (
            {"trigger": EPOCHS, "epochs": {"type": "ends", "at": ["12:07", "12:06"]}},
            r"^epochs.at\[1\]: expected ascending times, got `12:06:00` behind `12:07:00`",
        ),
        (
            {"trigger": EPOCHS, "epochs": {"type": "ends", "at": ["noon"]}},
            r"^epochs.at\[0\]: expected a time such as .* got `noon`",
        ),
        ({"measure": "median"}, "^measure: expected one of `sum`, .* got `median`"),
        ({"measure": {"sum": "value"}}, "^measure: expected one of"),
        ({"window": {"type": "global"}}, "^trigger: expected one that can fire: this watermark never passes"),
        (
            {"watermark": ...},
            "^trigger: expected a `watermark` beside it, since it can never fire without one, got none",
        ),
        (
            {"watermark": ..., "trigger": COUNT, "allowed_lateness": "1 minute"},
            "^allowed_lateness: expected a `watermark` beside it",
        ),
        ({"watermark": [STEP]}, "^watermark: expected .* an object with a `type`"),
        ({"watermark": {"type": "steps", "steps": []}}, "^watermark.steps: expected a list of steps, at least one"),
        (
            {"watermark": {"type": "steps", "steps": [{**STEP, "watermark": "noon"}]}},
            r"^watermark.steps\[0\].watermark: expected a time such as .* got `noon`",
        ),
        (
            {"watermark": {"type": "steps", "steps": [{"processing_time": "12:06"}]}},
            r"^watermark.steps\[0\].watermark: expected a time such as .* got nothing",
        ),
        (
            {"watermark": {"type": "steps", "steps": [{**STEP, "at": "12:06"}]}},
            r"^watermark.steps\[0\]: unknown field `at`",
        ),
        (
            {"watermark": {"type": "steps", "steps": [{**STEP, "watermark": "12:05"}, {**STEP, "watermark": "12:04"}]}},
            r"^watermark.steps\[1\]: expected a step that goes neither back .* got `12:04:00` at `12:06:00` behind",
        ),
        (
            {"watermark": {"type": "estimator"}},
            "^watermark.out_of_orderness: expected a whole number and a unit.* got nothing",
        ),
        (
            {"watermark": {"type": "estimator", "lag": "1 minute", "out_of_orderness": "1 minute"}},
            "^watermark: unknown field `lag`",
        ),
        (
            {"watermark": {"type": "bounded", "processing_time": "12:05"}},
            "^watermark.processing_time: expected no time before the last row arrives",
        ),
        ({"points": ...}, "^points: expected a list of rows, .* got nothing"),
        ({"points": 5}, "^points: expected a list of rows"),
        ({"points": [5]}, r"^points\[0\]: expected an object, got `5`"),
        ({"points": [POINT, {}]}, r"^points\[1\].event_time: expected a time such as .* got nothing"),
        (
            {"points": [{"event_time": "12:00"}]},
            r"^points\[0\].processing_time: expected a time such as .* got nothing",
        ),
        (
            {"points": [{**POINT, "processing_time": None}]},
            r"^points\[0\].processing_time: expected a time such as .* got `null`",
        ),
        (
            {"points": [{**POINT, "processing_time": "12:65"}]},
            r"^points\[0\].processing_time: expected a time such as .* got `12:65`",
        ),
        ({"points": [{**POINT, "processing_time": "+inf"}]}, r"^points\[0\].processing_time: expected a time such as"),
        (
            {"points": [{**POINT, "processing_time": "2024-01-01T00:00:00Z"}]},
            r"^points\[0\].processing_time: expected a time by the clock, as the first",
        ),
        ({"points": [{**POINT, "late": False}]}, r"^points\[0\]: unknown field `late`: expected one of event_time"),
        ({"points": [{**POINT, "value": "5"}]}, r"^points\[0\].value: expected a number below .* got `5`"),
        ({"points": [{**POINT, "value": Decimal("1e38")}]}, r"^points\[0\].value: expected a number below 10\^38"),
        (
            {"points": [{**POINT, "value": Decimal("1e-31")}]},
            r"^points\[0\].value: expected a number .* at most 30 digits behind",
        ),
        ({"points": [{**POINT, "value": True}]}, r"^points\[0\].value: expected a number"),
        (
            {"points": [{"event_time": "12:00", "processing_time": "12:01"}]},
            r"^points\[0\].value: expected a number or null, since the measure looks at it, got nothing",
        ),
        (
            {"points": [{**POINT, "key": Decimal("1.5")}]},
            r"^points\[0\].key: expected a text, a whole number or null, got `1.5`",
        ),
        ({"points": [{**POINT, "key": False}]}, r"^points\[0\].key: expected a text, a whole number or null"),
        ({"points": [{**POINT, "key": "\ud800"}]}, r"^points\[0\].key: expected text of whole characters"),
        ({"allowed_lateness": 5}, "^allowed_lateness: expected a whole number and a unit"),
        ({"allowed_lateness": "infinite"}, "^allowed_lateness: expected a whole number and a unit"),
        ({"case": "six"}, "^case: expected a whole number, by which"),
        ({"title": 6}, "^title: expected a text"),
        ({"panes": [{**PANE, "window_end": ...}]}, r"^panes\[0\].window_end: expected a time such as"),
        ({"panes": [{**PANE, "vale": 5}]}, r"^panes\[0\]: unknown field `vale`: .*\nHint: did you mean `value`"),
        ({"panes": [{**PANE, "kind": "ontime"}]}, r"^panes\[0\].kind: expected one of `early`, `on_time`"),
        (
            {"panes": [{**PANE, "window_end": "2024-01-01T00:00:00Z"}]},
            r"^panes\[0\].window_end: expected a time by the clock",
        ),
        ({"panes_within": "1 second"}, "^panes: expected a list of panes beside `panes_within`"),
        ({"dropped": []}, "^panes: expected a list of panes beside `dropped`"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        parsed(**{name: without_gaps(value) for name, value in changed.items()})


def without_gaps(value: Any) -> Any:
    """Return a list of objects without the fields that are `...`."""
    if not isinstance(value, list):
        return value
    return [{k: v for k, v in one.items() if v is not ...} if isinstance(one, dict) else one for one in value]


def test_more_rows_than_are_held_are_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setting, "MOST_ROWS", 9)

    with pytest.raises(
        DefinitionError, match=r"points: expected at most 9 points, .* since all are held at once, got 10"
    ):
        parsed(points=[POINT] * 10)
    window = {"type": "sliding", "size": "2 minutes", "every": "1 minute"}
    with pytest.raises(DefinitionError, match="got 5 points in up to 2 windows each"):
        parsed(points=[POINT] * 5, window=window)


def test_triggers_in_one_another_without_an_end_are_refused() -> None:
    trigger: dict[str, Any] = dict(COUNT)
    for _ in range(800):
        trigger = {"type": "repeat", "of": trigger}

    with pytest.raises(DefinitionError, match="expected"):
        parsed(trigger=trigger)


def written(path: Path, value: object) -> Path:
    file = path / "scenario.json"
    file.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return file


def cases(*several: object, **shared: Any) -> dict[str, Any]:
    return {**GOOD, "cases": list(several), **shared}


def test_case_is_taken_out_of_a_file_with_several(tmp_path: Path) -> None:
    shared = {name: value for name, value in GOOD.items() if name != "accumulation"}
    several = [
        {"case": 1, "title": "one", "accumulation": "accumulating"},
        {"case": 2, "accumulation": "discarding"},
    ]
    file = written(tmp_path, {**shared, "title": "all", "cases": several})

    assert parse_file(file, case=1).title == "one"
    assert parse_file(file, case=2).setting.accumulation is Accumulation.DISCARDING
    assert [one.title for one in parse_cases(file)] == ["one", "all"]


def test_only_case_of_a_file_needs_no_number(tmp_path: Path) -> None:
    assert parse_file(written(tmp_path, cases({"case": 3}))).case == 3
    assert parse_file(written(tmp_path, {**GOOD, "case": 3}), case=3).case == 3


def test_title_is_that_of_the_file_if_none_is_given(tmp_path: Path) -> None:
    assert parse_file(written(tmp_path, GOOD)).title == "scenario"


def test_numbers_with_a_point_are_exact(tmp_path: Path) -> None:
    file = written(tmp_path, {**GOOD, "points": [{**POINT, "value": 0.1}]})

    assert parse_file(file).setting.rows[0].columns == {"value": Decimal("0.1")}


@pytest.mark.parametrize(
    ("content", "case", "message"),
    [
        (cases({"case": 1}, {"case": 2}), None, r"expected --case, since it has 2 cases \(1, 2\), got none"),
        (cases({"case": 1}, {"case": 2}), 3, r"--case: expected one of 2 cases \(1, 2\), got `3`"),
        ({**GOOD, "case": 6}, 7, "--case: expected 6, since the file has no other, got `7`"),
        (
            cases({"case": 1}, {"case": 7}, {"case": 7}),
            1,
            r"cases\[2\].case: expected a number of its own, got `7`, which cases\[1\] has",
        ),
        (cases({"case": 1}, {"title": "x"}), 1, r"cases\[1\].case: expected a whole number, .* got nothing"),
        (cases({"case": True}), None, r"cases\[0\].case: expected a whole number, .* got `true`"),
        (cases({"case": 1}, {"case": 2, "triger": 5}), 1, "case 2: unknown field `triger`"),
        (cases({"case": 1}, {"case": 2, "allowed_lateness": 5}), 1, "case 2: allowed_lateness: expected"),
        (
            cases({"case": 1, "accumulation": "discarding"}),
            1,
            "case 1: accumulation: expected either for all cases or in this one, got both",
        ),
        (cases({"case": 1}, points=[{}]), 1, r"`: points\[0\].event_time: expected a time"),
        (cases({"case": 1}, engine="x"), 1, "unknown field `engine` beside `cases`"),
        (cases({"case": 1}, watermark=None), 1, "case 1: trigger: expected a `watermark`"),
        ({**GOOD, "cases": {}}, None, "cases: expected a list of at least one case, got `{}`"),
        ({**GOOD, "cases": []}, None, "cases: expected a list of at least one case"),
        ({**GOOD, "cases": [5]}, None, r"cases\[0\]: expected an object, got `5`"),
        ("", None, "expected one JSON object, got an empty file"),
        (" \n", None, "expected one JSON object, got an empty file"),
        ("{", None, "expected JSON, got"),
        ("[]", None, "Scenario `scenario.json`: expected one JSON object, got a list"),
        ('{"points": [NaN]}', None, "got NaN, which is not JSON"),
        ('{"points": [], "points": []}', None, "got the field `points` twice in one object"),
        ("[" * 100_000, None, "expected JSON, got objects in one another without an end"),
        ({**GOOD, "accumulation": "x"}, None, "Scenario `scenario.json`: accumulation: expected one of"),
    ],
)
def test_file_that_does_not_fit_is_refused_by_its_name(
    tmp_path: Path, content: object, case: int | None, message: str
) -> None:
    with pytest.raises(DefinitionError, match=message) as refused:
        parse_file(written(tmp_path, content), case=case)
    assert str(refused.value).startswith("Scenario `scenario.json`: ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps(GOOD).encode("utf-16"), "expected text in UTF-8, got UTF-16.\nHint: `iconv -f UTF-16"),
        (json.dumps(GOOD).encode("utf-32"), "expected text in UTF-8, got UTF-32"),
        ('{\n"title": "caf\u00e9"}'.encode("latin-1"), "expected text in UTF-8, got the byte 0xe9, line 2"),
    ],
)
def test_file_of_another_encoding_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "scenario.json").write_bytes(content)

    with pytest.raises(DefinitionError, match=message):
        parse_file(tmp_path / "scenario.json")


def test_byte_order_mark_of_utf_8_is_no_part_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "scenario.json").write_bytes(json.dumps(GOOD).encode("utf-8-sig"))

    assert parse_file(tmp_path / "scenario.json").setting.rows


@pytest.mark.parametrize(
    ("name", "message"), [("none.json", "got No such file"), ("", "expected a file, got a folder")]
)
def test_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        parse_file(tmp_path / name)
