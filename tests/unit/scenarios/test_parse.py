"""Fields of scenario files, and errors raised before anything runs."""

from decimal import Decimal
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
    Sum,
    Until,
)
from cutover.definition.measures.kinds import Measure
from cutover.definition.model.triggers import DEFAULT_TRIGGER, Trigger
from cutover.definition.windows.kinds import SlidingWindows
from cutover.definition.windows.window_fn import FOREVER, WindowFn
from cutover.errors import DefinitionError
from cutover.panes.model import Estimator, Ideal, WatermarkStep
from cutover.scenarios.reading import setting
from cutover.scenarios.reading.texts import Style
from tests.support.rows.scenario_parts import (
    AT_WATERMARK,
    COUNT,
    EPOCHS,
    EVERY,
    GOOD,
    NOON,
    PANE,
    POINT,
    SECOND,
    STEP,
    parse_with_changes,
    without_gaps,
)


def test_point_is_a_row() -> None:
    (row,) = parse_with_changes(points=[{**POINT, "key": "a"}]).setting.rows

    assert (row.event_time, row.processing_time) == (NOON + 26 * SECOND, NOON + 319 * SECOND)
    assert (row.key, row.columns) == ("a", {"value": 5})


def test_dates_are_read_and_written_as_dates() -> None:
    point = {"event_time": "2024-03-31T00:00:00+01:00", "processing_time": "2024-03-31T00:00:00Z", "value": 1}
    step = {"processing_time": "2024-04-01T00:00:00Z", "watermark": "+inf"}
    scenario = parse_with_changes(points=[point], watermark={"type": "steps", "steps": [step]})

    assert scenario.style is Style.DATE
    assert scenario.setting.rows[0].event_time == 1_711_839_600 * SECOND


@pytest.mark.parametrize(
    ("value", "measure"),
    [
        (..., Sum("value")),
        ("sum", Sum("value")),
        ("min", Min("value")),
        ("max", Max("value")),
        ("avg", Avg("value")),
        ("count", Count()),
    ],
)
def test_measure_is_parsed(value: object, measure: Measure) -> None:
    assert parse_with_changes(measure=value).setting.measure == measure


def test_count_needs_no_value() -> None:
    point = {name: value for name, value in POINT.items() if name != "value"}

    assert parse_with_changes(measure="count", points=[point]).setting.rows[0].columns == {}


@pytest.mark.parametrize("accumulation", Accumulation)
def test_accumulation_is_parsed(accumulation: Accumulation) -> None:
    assert parse_with_changes(accumulation=accumulation.value).setting.accumulation is accumulation


@pytest.mark.parametrize(
    ("value", "window"),
    [
        ({"type": "global"}, Global()),
        ({"type": "fixed", "size": "90 seconds"}, Fixed(seconds=90)),
        ({"type": "fixed", "size": "1 hour", "offset": "15 minutes"}, Fixed(hours=1, offset="15 minutes")),
        (
            {"type": "sliding", "size": "10 minutes", "every": "1 minute", "offset": "5 seconds"},
            SlidingWindows(size=600 * SECOND, every=60 * SECOND, offset=5 * SECOND),
        ),
        ({"type": "sessions", "gap": "30 seconds"}, Sessions("30 seconds")),
        ({"type": "daily", "zone": "Europe/Berlin"}, Daily(zone="Europe/Berlin")),
        ({"type": "daily", "zone": "UTC", "offset": "6 hours"}, Daily(zone="UTC", offset="6 hours")),
    ],
)
def test_window_is_parsed(value: dict[str, Any], window: WindowFn) -> None:
    assert parse_with_changes(window=value, trigger=COUNT).setting.window == window


@pytest.mark.parametrize(
    ("value", "trigger"),
    [
        (..., DEFAULT_TRIGGER),
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
def test_trigger_is_parsed(value: object, trigger: Trigger) -> None:
    assert parse_with_changes(trigger=value).setting.trigger == trigger


def test_bounded_input_is_complete_with_its_last_row() -> None:
    setting = parse_with_changes(watermark={"type": "bounded"}).setting

    assert setting.watermark == (WatermarkStep(processing_time=NOON + 319 * SECOND, watermark=FOREVER),)


def test_bounded_input_may_be_complete_later() -> None:
    setting = parse_with_changes(watermark={"type": "bounded", "processing_time": "12:06:00"}).setting

    assert setting.watermark == (WatermarkStep(processing_time=NOON + 360 * SECOND, watermark=FOREVER),)


def test_watermark_steps_may_reach_the_end_of_time() -> None:
    steps = [{"processing_time": "12:06", "watermark": "-inf"}, {"processing_time": "12:09:00", "watermark": "+inf"}]

    watermark = parse_with_changes(watermark={"type": "steps", "steps": steps}).setting.watermark
    assert [step.watermark for step in watermark] == [-FOREVER, FOREVER]


@pytest.mark.parametrize(
    ("value", "watermark"),
    [
        ({"type": "estimator", "out_of_orderness": "30 seconds"}, Estimator(out_of_orderness=30 * SECOND)),
        ({"type": "ideal"}, Ideal()),
    ],
)
def test_watermark_is_parsed(value: dict[str, Any], watermark: object) -> None:
    assert parse_with_changes(watermark=value).setting.watermark == watermark


@pytest.mark.parametrize(("value", "micros"), [(..., None), ("1 minute", 60 * SECOND)])
def test_allowed_lateness_is_parsed(value: object, micros: int | None) -> None:
    assert parse_with_changes(allowed_lateness=value).setting.allowed_lateness == micros


@pytest.mark.parametrize(
    ("value", "ends"),
    [
        ({"type": "ends", "at": ["12:06", "12:07:30"]}, [360, 450]),
        ({"type": "every", "period": "1 minute"}, [360]),
        ({"type": "every", "period": "5 minutes"}, [600]),
    ],
)
def test_epochs_end_at_the_given_times(value: dict[str, Any], ends: list[int]) -> None:
    setting = parse_with_changes(trigger=EPOCHS, epochs=value).setting

    assert setting.trigger == Repeat(EachEpoch())
    assert [(end - NOON) // SECOND for end in setting.epochs] == ends


@pytest.mark.parametrize(
    ("changes", "message"),
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
            "^window: expected a name such as `Europe/Berlin` or `UTC`, got `Berlin`",
        ),
        ({"window": {"type": "sessions", "gap": "0 seconds"}}, "^window: expected more than zero"),
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
            "^trigger: expected a period longer than zero, got `0 minutes`",
        ),
        ({"trigger": {"type": "after_delay", "delay": "0 minutes"}}, "^trigger: expected a delay longer than zero"),
        ({"trigger": {"type": "at_watermark", "always": 1}}, "^trigger.always: expected true or false, got `1`"),
        ({"trigger": {"type": "sequence", "parts": []}}, "^trigger.parts: expected a list of at least one trigger"),
        (
            {"trigger": {"type": "sequence", "parts": [COUNT, {"type": "every"}]}},
            r"^trigger.parts\[1\].period: expected a whole number and a unit.* got nothing",
        ),
        (
            {"trigger": {"type": "sequence", "parts": [GOOD["trigger"], COUNT]}},
            "^trigger: expected parts that finish, got",
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
        ({"trigger": EPOCHS}, "^trigger: expected `epochs` in the scenario, .* got none.\nHint: "),
        ({"epochs": {"type": "every", "period": "1 minute"}}, "^epochs: expected a trigger with `each_epoch`"),
        ({"trigger": EPOCHS, "epochs": "every 1 MINUTE"}, "^epochs: expected when epochs end: an object with a `type`"),
        (
            {"trigger": EPOCHS, "epochs": {"type": "every", "period": "0 minutes"}},
            "^epochs.period: expected a period longer than zero",
        ),
        (
            {"trigger": EPOCHS, "epochs": {"type": "ends", "at": ["12:07", "12:06"]}},
            r"^epochs.at\[1\]: expected ascending times, got `12:06:00` after `12:07:00`",
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
            "^trigger: expected a `watermark` in the scenario, since it can never fire without one, got none",
        ),
        (
            {"watermark": ..., "trigger": COUNT, "allowed_lateness": "1 minute"},
            "^allowed_lateness: expected a `watermark` in the scenario",
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
            r"^watermark.steps\[1\]: expected a step that goes neither back .* got `12:04:00` at `12:06:00` after",
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
            r"^points\[0\].value: expected a number or null, since the measure reads it, got nothing",
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
        ({"panes_within": "1 second"}, "^panes: expected a list of panes with `panes_within`"),
        ({"dropped": []}, "^panes: expected a list of panes with `dropped`"),
    ],
)
def test_invalid_value_is_rejected_with_its_place(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        parse_with_changes(**{name: without_gaps(value) for name, value in changes.items()})


def test_too_many_rows_are_rejected_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setting, "MOST_ROWS", 9)

    with pytest.raises(
        DefinitionError, match=r"points: expected at most 9 points, .* since all are kept in memory, got 10"
    ):
        parse_with_changes(points=[POINT] * 10)
    window = {"type": "sliding", "size": "2 minutes", "every": "1 minute"}
    with pytest.raises(DefinitionError, match="got 5 points in up to 2 windows each"):
        parse_with_changes(points=[POINT] * 5, window=window)


def test_endlessly_nested_triggers_are_rejected() -> None:
    trigger: dict[str, Any] = dict(COUNT)
    for _ in range(800):
        trigger = {"type": "repeat", "of": trigger}

    with pytest.raises(DefinitionError, match="expected"):
        parse_with_changes(trigger=trigger)
