"""From the form of a scenario to what a runner is given; what does not fit together is refused with its place."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NoReturn

from cutover.definition.measures.kinds import Avg, Count, Max, Measure, Min, Sum
from cutover.definition.model.triggers import (
    DEFAULT_TRIGGER,
    Accumulation,
    Trigger,
    has_epoch_trigger,
    waits_for_watermark,
)
from cutover.definition.windows.window_fn import FOREVER
from cutover.durations import parse_duration
from cutover.errors import DefinitionError
from cutover.panes.model import Estimator, Ideal, InputRow, Setting, Watermark, WatermarkStep
from cutover.scenarios.reading.file_form import ListedEpochsForm, PointForm, ScenarioForm
from cutover.scenarios.reading.forms import BoundedForm, EstimatorForm, IdealForm, StepsForm
from cutover.scenarios.reading.scenario import Expected, Scenario
from cutover.scenarios.reading.times import ScenarioTime, Style, write

MOST_ROWS = 1_000_000
"""Rows, each counted once in every window that it falls into: about two gigabytes of memory and a minute or two."""

_MEASURES: Mapping[str, Callable[[str], Measure]] = {"sum": Sum, "min": Min, "max": Max, "avg": Avg}
_VALUE = "value"


def scenario_of(form: ScenarioForm, *, default_title: str) -> Scenario:
    """Check a form's parts against one another and turn it into a scenario.

    Raises:
        DefinitionError: The first thing that does not fit to the others.
    """
    style = _style(form)
    window = form.window.window()
    _check_size(form, window.max_windows)
    trigger = DEFAULT_TRIGGER if form.trigger is None else form.trigger.trigger()
    measure = Count() if form.measure == "count" else _MEASURES[form.measure](_VALUE)
    rows = tuple(_row(point, at, measure) for at, point in enumerate(form.points))
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
        got = f"{len(form.points)} points{reason}"
        _refuse("points", f"at most {MOST_ROWS} points, counted once in each window, since all are held at once", got)


def _row(point: PointForm, at: int, measure: Measure) -> InputRow:
    if measure.expression is None:
        return InputRow(event_time=point.event_time.micros, processing_time=point.processing_time.micros, key=point.key)
    if _VALUE not in point.model_fields_set:
        _refuse(f"points[{at}].value", "a number or null, since the measure looks at it", "nothing")
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
            found = tuple(
                WatermarkStep(processing_time=s.processing_time.micros, watermark=s.watermark.micros) for s in steps
            )
            _check_forward(found, _style(form))
            return found
        case EstimatorForm(out_of_orderness=text):
            return Estimator(out_of_orderness=parse_duration(text, of="watermark.out_of_orderness"))
        case IdealForm():
            return Ideal()
        case BoundedForm() as bounded:
            return (WatermarkStep(processing_time=_all_in(bounded, rows, _style(form)), watermark=FOREVER),)


def _all_in(bounded: BoundedForm, rows: Sequence[InputRow], style: Style) -> int:
    last = max((row.processing_time for row in rows), default=0)
    if bounded.processing_time is None:
        return last
    micros = bounded.processing_time.micros
    if micros < last:
        of = "watermark.processing_time"
        _refuse(of, f"no time before the last row arrives (`{write(last, style)}`)", f"`{write(micros, style)}`")
    return micros


def _check_forward(steps: Sequence[WatermarkStep], style: Style) -> None:
    for at, (before, after) in enumerate(pairwise(steps), start=1):
        if after.processing_time < before.processing_time or after.watermark < before.watermark:
            got = f"{_format_step(after, style)} behind {_format_step(before, style)}"
            of = f"watermark.steps[{at}]"
            _refuse(of, "a step that goes neither back in processing time nor in event time", got)


def _format_step(step: WatermarkStep, style: Style) -> str:
    return f"`{write(step.watermark, style)}` at `{write(step.processing_time, style)}`"


def _parse_lateness(form: ScenarioForm) -> int | None:
    if form.allowed_lateness is None:
        return None
    if form.watermark is None:
        _refuse("allowed_lateness", "a `watermark` beside it, since without one nothing is late", "none")
    return parse_duration(form.allowed_lateness, of="allowed_lateness")


def _epochs(form: ScenarioForm, trigger: Trigger, rows: Sequence[InputRow], style: Style) -> tuple[int, ...]:
    if form.epochs is None:
        return ()
    if not has_epoch_trigger(trigger):
        _refuse("epochs", "a trigger with `each_epoch`, since epochs change nothing for others", str(trigger))
    if isinstance(form.epochs, ListedEpochsForm):
        found = tuple(moment.micros for moment in form.epochs.at)
        for at, (before, after) in enumerate(pairwise(found), start=1):
            if after <= before:
                got = f"`{write(after, style)}` behind `{write(before, style)}`"
                _refuse(f"epochs.at[{at}]", "ascending times", got)
        return found
    period = parse_duration(form.epochs.period, of="epochs.period")
    if period == 0:
        _refuse("epochs.period", "a period longer than zero", f"`{form.epochs.period}`")
    return tuple(sorted({-(-row.processing_time // period) * period for row in rows}))


def _check_fires(setting: Setting) -> None:
    """Refuse a trigger that can never fire with this window, this watermark and these epochs."""
    steps = setting.watermark
    if has_epoch_trigger(setting.trigger) and not setting.epochs and setting.rows:
        hint = '`"epochs": {"type": "every", "period": "1 minute"}`'
        _refuse("trigger", "`epochs` beside it, since `each_epoch` fires at their ends", "none", hint)
    if not waits_for_watermark(setting.trigger):
        return
    if steps == ():
        _refuse("trigger", "a `watermark` beside it, since it can never fire without one", "none")
    ends = isinstance(steps, tuple) and steps[-1].watermark == FOREVER
    if setting.window.reach is None and not ends:
        expected = "one that can fire: this watermark never passes the end of the global window"
        _refuse("trigger", expected, str(setting.trigger), "a last step to `+inf`, or a trigger such as `every`.")


def _parse_expected(form: ScenarioForm) -> Expected | None:
    if form.panes is None:
        beside = [name for name in ("panes_within", "dropped", "waiting") if getattr(form, name) is not None]
        if beside:
            _refuse("panes", f"a list of panes beside `{beside[0]}`", "nothing")
        return None
    return Expected(
        panes=tuple(form.panes),
        within=0 if form.panes_within is None else parse_duration(form.panes_within, of="panes_within"),
        dropped=None if form.dropped is None else tuple(form.dropped),
        waiting=None if form.waiting is None else tuple(form.waiting),
    )


def _style(form: ScenarioForm) -> Style:
    """Return how the times of a scenario are written; all of one kind, those without end aside."""
    first: Style | None = None
    for place, moment in _moments(form):
        first = first or moment.style
        if moment.style not in {None, first}:
            kind = "clock" if first is Style.CLOCK else "date"
            got = f"`{write(moment.micros, moment.style or Style.DATE)}`"
            _refuse(place, f"a time by the {kind}, as the first one of the scenario", got)
    return first or Style.CLOCK


def _moments(form: ScenarioForm) -> Iterator[tuple[str, ScenarioTime]]:
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
        for at, one in enumerate(getattr(form, name) or ()):
            found = ((field, getattr(one, field)) for field in type(one).model_fields)
            yield from ((f"{name}[{at}].{field}", value) for field, value in found if isinstance(value, ScenarioTime))


def _refuse(of: str, expected: str, got: str, hint: str = "") -> NoReturn:
    msg = f"{of}: expected {expected}, got {got}." + (f"\nHint: {hint}" if hint else "")
    raise DefinitionError(msg)
