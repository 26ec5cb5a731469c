"""Validated scenario: the setting for every runner, the style of its times, and the expected outcome.

Fields of the form that contradict each other are rejected with their place.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NoReturn

from cutover.counts import count_noun
from cutover.definition.measures.kinds import Avg, Count, Max, Measure, Min, Sum
from cutover.definition.model.triggers import (
    DEFAULT_TRIGGER,
    Accumulation,
    Trigger,
    has_epoch_trigger,
    waits_for_watermark,
)
from cutover.definition.windows.window_fn import FOREVER
from cutover.errors import DefinitionError
from cutover.panes.model import Estimator, Ideal, InputRow, Setting, Watermark, WatermarkStep
from cutover.scenarios.reading.forms import (
    BoundedForm,
    DroppedForm,
    EstimatorForm,
    IdealForm,
    ListedEpochsForm,
    PaneForm,
    PointForm,
    ScenarioForm,
    StepsForm,
    WaitingForm,
)
from cutover.scenarios.reading.texts import ScenarioTime, Style, format_scenario_time
from cutover.timestamps import parse_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Outcome that a file expects; None for parts that it leaves out."""

    panes: tuple[PaneForm, ...]
    tolerance: int = 0  # microseconds by which the processing time of a pane may differ
    dropped: tuple[DroppedForm, ...] | None = None
    waiting: tuple[WaitingForm, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Setting for a runner, with title, case, style and expected outcome."""

    title: str
    case: int | None
    setting: Setting
    style: Style
    expected: Expected | None = None


MOST_ROWS = 1_000_000
"""Maximum number of rows, each counted once per window: about 2 GB of memory and one to two minutes."""

_MEASURES: Mapping[str, Callable[[str], Measure]] = {"sum": Sum, "min": Min, "max": Max, "avg": Avg}
_VALUE = "value"


def scenario_of(form: ScenarioForm, *, default_title: str) -> Scenario:
    """Check that the fields of a form are consistent, and convert it into a scenario.

    Raises:
        DefinitionError: Two fields contradict each other; reports the first contradiction.
    """
    style = _find_style(form)
    window = form.window.window()
    _check_size(form, window.max_windows)
    trigger = DEFAULT_TRIGGER if form.trigger is None else form.trigger.trigger()
    measure = Count() if form.measure == "count" else _MEASURES[form.measure](_VALUE)
    rows = tuple(_make_row(point, at, measure) for at, point in enumerate(form.points))
    setting = Setting(
        rows=rows,
        measure=measure,
        window=window,
        trigger=trigger,
        accumulation=Accumulation(form.accumulation),
        watermark=_watermark(form, rows),
        allowed_lateness=_parse_lateness(form),
        epochs=_epochs(form, trigger, rows, style),
    )
    _check_fires(setting)
    return Scenario(
        title=form.title or default_title, case=form.case, setting=setting, style=style, expected=_parse_expected(form)
    )


def _check_size(form: ScenarioForm, windows: int) -> None:
    if len(form.points) * windows > MOST_ROWS:
        reason = "" if windows == 1 else f" in up to {windows} windows each"
        actual = f"{count_noun(len(form.points), 'point')}{reason}"
        _reject(
            "points", f"at most {MOST_ROWS} points, counted once in each window, since all are kept in memory", actual
        )


def _make_row(point: PointForm, at: int, measure: Measure) -> InputRow:
    if measure.expression is None:
        return InputRow(event_time=point.event_time.micros, processing_time=point.processing_time.micros, key=point.key)
    if _VALUE not in point.model_fields_set:
        _reject(f"points[{at}].value", "a number or null, since the measure reads it", "nothing")
    return InputRow(
        event_time=point.event_time.micros,
        processing_time=point.processing_time.micros,
        key=point.key,
        columns={_VALUE: point.value},
    )


def _watermark(form: ScenarioForm, rows: Sequence[InputRow]) -> Watermark:
    match form.watermark:
        case None:
            return ()
        case StepsForm(steps=steps):
            watermark_steps = tuple(
                WatermarkStep(processing_time=step.processing_time.micros, watermark=step.watermark.micros)
                for step in steps
            )
            _check_forward(watermark_steps, _find_style(form))
            return watermark_steps
        case EstimatorForm(out_of_orderness=text):
            return Estimator(out_of_orderness=parse_duration(text, of="watermark.out_of_orderness"))
        case IdealForm():
            return Ideal()
        case BoundedForm() as bounded:
            return (
                WatermarkStep(processing_time=_find_end_of_input(bounded, rows, _find_style(form)), watermark=FOREVER),
            )


def _find_end_of_input(bounded: BoundedForm, rows: Sequence[InputRow], style: Style) -> int:
    last_arrival = max((row.processing_time for row in rows), default=0)
    if bounded.processing_time is None:
        return last_arrival
    micros = bounded.processing_time.micros
    if micros < last_arrival:
        of = "watermark.processing_time"
        _reject(
            of,
            f"no time before the last row arrives (`{format_scenario_time(last_arrival, style)}`)",
            f"`{format_scenario_time(micros, style)}`",
        )
    return micros


def _check_forward(steps: Sequence[WatermarkStep], style: Style) -> None:
    for at, (previous, step) in enumerate(pairwise(steps), start=1):
        if step.processing_time < previous.processing_time or step.watermark < previous.watermark:
            actual = f"{_format_step(step, style)} after {_format_step(previous, style)}"
            of = f"watermark.steps[{at}]"
            _reject(of, "a step that goes neither back in processing time nor in event time", actual)


def _format_step(step: WatermarkStep, style: Style) -> str:
    return f"`{format_scenario_time(step.watermark, style)}` at `{format_scenario_time(step.processing_time, style)}`"


def _parse_lateness(form: ScenarioForm) -> int | None:
    if form.allowed_lateness is None:
        return None
    if form.watermark is None:
        _reject("allowed_lateness", "a `watermark` in the scenario, since without one no row is late", "none")
    return parse_duration(form.allowed_lateness, of="allowed_lateness")


def _epochs(form: ScenarioForm, trigger: Trigger, rows: Sequence[InputRow], style: Style) -> tuple[int, ...]:
    if form.epochs is None:
        return ()
    if not has_epoch_trigger(trigger):
        _reject("epochs", "a trigger with `each_epoch`, since epochs change nothing for others", str(trigger))
    if isinstance(form.epochs, ListedEpochsForm):
        ends = tuple(moment.micros for moment in form.epochs.at)
        for at, (previous, end) in enumerate(pairwise(ends), start=1):
            if end <= previous:
                actual = f"`{format_scenario_time(end, style)}` after `{format_scenario_time(previous, style)}`"
                _reject(f"epochs.at[{at}]", "ascending times", actual)
        return ends
    period = parse_duration(form.epochs.period, of="epochs.period")
    if period == 0:
        _reject("epochs.period", "a period longer than zero", f"`{form.epochs.period}`")
    return tuple(sorted({-(-row.processing_time // period) * period for row in rows}))


def _check_fires(setting: Setting) -> None:
    """Reject a trigger that can never fire with the window, watermark and epochs of the scenario."""
    steps = setting.watermark
    if has_epoch_trigger(setting.trigger) and not setting.epochs and setting.rows:
        hint = '`"epochs": {"type": "every", "period": "1 minute"}`'
        _reject("trigger", "`epochs` in the scenario, since `each_epoch` fires at their ends", "none", hint)
    if not waits_for_watermark(setting.trigger):
        return
    if steps == ():
        _reject("trigger", "a `watermark` in the scenario, since it can never fire without one", "none")
    reaches_end = isinstance(steps, tuple) and steps[-1].watermark == FOREVER
    if setting.window.reach is None and not reaches_end:
        expected = "one that can fire: this watermark never passes the end of the global window"
        _reject("trigger", expected, str(setting.trigger), "a last step to `+inf`, or a trigger such as `every`.")


def _parse_expected(form: ScenarioForm) -> Expected | None:
    if form.panes is None:
        dependents = [name for name in ("panes_within", "dropped", "waiting") if getattr(form, name) is not None]
        if dependents:
            _reject("panes", f"a list of panes with `{dependents[0]}`", "nothing")
        return None
    return Expected(
        panes=tuple(form.panes),
        tolerance=0 if form.panes_within is None else parse_duration(form.panes_within, of="panes_within"),
        dropped=None if form.dropped is None else tuple(form.dropped),
        waiting=None if form.waiting is None else tuple(form.waiting),
    )


def _find_style(form: ScenarioForm) -> Style:
    """Return the style of the times of a scenario; all finite times must have the same one."""
    style: Style | None = None
    for place, moment in _iterate_times(form):
        style = style or moment.style
        if moment.style not in {None, style}:
            kind = "clock" if style is Style.CLOCK else "date"
            actual = f"`{format_scenario_time(moment.micros, moment.style or Style.DATE)}`"
            _reject(place, f"a time by the {kind}, as the first time of the scenario", actual)
    return style or Style.CLOCK


def _iterate_times(form: ScenarioForm) -> Iterator[tuple[str, ScenarioTime]]:
    for at, point in enumerate(form.points):
        yield f"points[{at}].event_time", point.event_time
        yield f"points[{at}].processing_time", point.processing_time
    if isinstance(form.watermark, StepsForm):
        for at, step in enumerate(form.watermark.steps):
            yield f"watermark.steps[{at}].processing_time", step.processing_time
            yield f"watermark.steps[{at}].watermark", step.watermark
    if isinstance(form.watermark, BoundedForm) and form.watermark.processing_time is not None:
        yield "watermark.processing_time", form.watermark.processing_time
    if isinstance(form.epochs, ListedEpochsForm):
        yield from ((f"epochs.at[{at}]", moment) for at, moment in enumerate(form.epochs.at))
    for name in ("panes", "dropped", "waiting"):
        for at, part in enumerate(getattr(form, name) or ()):
            fields = ((field, getattr(part, field)) for field in type(part).model_fields)
            yield from ((f"{name}[{at}].{field}", value) for field, value in fields if isinstance(value, ScenarioTime))


def _reject(of: str, expected: str, actual: str, hint: str = "") -> NoReturn:
    msg = f"{of}: expected {expected}, got {actual}." + (f"\nHint: {hint}" if hint else "")
    raise DefinitionError(msg)
