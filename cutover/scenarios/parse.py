"""A scenario from its file: one case, alone or out of a file with several. The format: docs/scenarios.md."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cutover.definition.durations import parse_duration
from cutover.definition.measures import Avg, Count, Max, Measure, Min, Sum
from cutover.definition.triggers import Accumulation, uses_epochs, waits_for_watermark
from cutover.definition.windows import FOREVER, Global
from cutover.errors import DefinitionError
from cutover.panes.model import Setting
from cutover.scenarios import engines, points, words
from cutover.scenarios.fields import as_list, as_object, as_text, as_whole, check_known, load, refuse
from cutover.scenarios.model import Engine, Scenario

READ = (
    "figure",
    "title",
    "window",
    "trigger",
    "accumulation",
    "engine",
    "measure",
    "allowed_lateness",
    "epochs",
    "origin",
    "points",
    "watermark_steps",
    "watermark_estimator",
    "watermark_ideal",
)
FOR_PEOPLE = (
    "about",
    "id",
    "name",
    "description",
    "comment",
    "note",
    "notes",
    "source",
    "units",
    "semantics",
    "key",
    "sum",
    "watermark",
    "panes",
    "optional_panes",
    "expected",
    "kind_is_meaningful",
)
"""Fields that describe a scenario, or what is expected of it: allowed, and not read."""

_MEASURES: Mapping[str, Callable[[str], Measure]] = {"sum": Sum, "min": Min, "max": Max, "avg": Avg}
_ACCUMULATIONS = {
    "discarding": Accumulation.DISCARDING,
    "accumulating": Accumulation.ACCUMULATING,
    "retracting": Accumulation.RETRACTING,
    "accumulatingandretracting": Accumulation.RETRACTING,
}


def parse_file(path: Path, *, case: int | None = None) -> Scenario:
    """Return the scenario of a file.

    Args:
        path: JSON; one case, or several under `cases`.
        case: Which of several, by the number in `figure`; needed if there are several.

    Raises:
        DefinitionError: The first thing that does not fit, with its place; nothing has run.
    """
    given = load(path)
    try:
        return parse(_one_case(given, case), default_title=path.stem)
    except DefinitionError as error:
        msg = f"Scenario `{path.name}`: {error}"
        raise DefinitionError(msg) from None


def parse(given: Mapping[str, object], *, default_title: str) -> Scenario:
    """Return the scenario of one case with its points and its watermark.

    Raises:
        DefinitionError: The first thing that does not fit.
    """
    check_known(given, (*READ, *FOR_PEOPLE), of="the scenario")
    asked = words.trigger(as_text(given.get("trigger", "default"), of="trigger"))
    named = engines.engine(given, asked)
    clock = points.clock(given)
    measure = _measure(given.get("measure", "sum"))
    rows = points.rows(given, clock, measure.expression)
    setting = Setting(
        rows=rows,
        measure=measure,
        window=words.window(as_text(given.get("window"), of="window")),
        trigger=engines.trigger(named, asked),
        accumulation=_accumulation(given.get("accumulation"), named.engine),
        watermark=engines.watermark(named, given, clock, rows),
        allowed_lateness=_allowed(given.get("allowed_lateness")),
        epochs=engines.epochs(named, given, asked, clock, rows),
    )
    _check_fires(setting)
    figure = None if given.get("figure") is None else as_whole(given["figure"], of="figure")
    title = as_text(given.get("title", default_title), of="title")
    return Scenario(title=title, figure=figure, engine=named.engine, setting=setting, style=clock.style)


def _one_case(given: Mapping[str, object], wanted: int | None) -> Mapping[str, object]:
    """Return one case, with what its file says for all of them."""
    shared = {name: value for name, value in given.items() if name not in {"cases", "case"}}
    if "case" in given:
        return {**shared, **as_object(given["case"], of="case")}
    if "cases" not in given:
        return _the_wanted([shared], wanted)
    cases = as_list(given["cases"], of="cases")
    return {**shared, **_the_wanted([as_object(one, of=f"cases[{at}]") for at, one in enumerate(cases)], wanted)}


def _the_wanted(cases: Sequence[Mapping[str, object]], wanted: int | None) -> Mapping[str, object]:
    found = [one for one in cases if wanted is None or one.get("figure") == wanted]
    if len(found) != 1:
        figures = ", ".join(str(one.get("figure")) for one in cases)
        got = "none" if wanted is None else str(wanted)
        refuse("--case", f"the `figure` of one of {len(cases)} cases ({figures})", got)
    return found[0]


def _measure(value: object) -> Measure:
    """Return the measure of `sum` (then of `value`), or of `{"sum": "clicks"}`."""
    known = f'one of {", ".join((*_MEASURES, "count"))}, or an object such as {{"sum": "clicks"}}'
    if value == "count":
        return Count()
    name, column = next(iter(value.items())) if isinstance(value, dict) and len(value) == 1 else (value, "value")
    if not isinstance(name, str) or name not in _MEASURES or not isinstance(column, str):
        refuse("measure", known, value)
    return _MEASURES[name](column)


def _accumulation(value: object, engine: Engine) -> Accumulation:
    """Return how panes relate; of batch, which has one pane a window, nothing has to be said."""
    text = "n/a" if value is None else as_text(value, of="accumulation")
    word = re.sub(r"\(.*\)|[\s_-]", "", text).lower()
    if word == "n/a" and engine is Engine.BATCH:
        return Accumulation.ACCUMULATING
    if word not in _ACCUMULATIONS:
        refuse("accumulation", "discarding, accumulating, or accumulatingAndRetracting (retracting)", value)
    return _ACCUMULATIONS[word]


def _allowed(value: object) -> int | None:
    """Return the allowed lateness; without end if none is given, or `infinite`."""
    if value is None or value == "infinite":
        return None
    return parse_duration(as_text(value, of="allowed_lateness").lower(), of="allowed_lateness")


def _check_fires(setting: Setting) -> None:
    """Refuse a trigger that can never fire with this window, this watermark and these epochs."""
    steps = setting.watermark
    if uses_epochs(setting.trigger) and not setting.epochs and setting.rows:
        refuse(
            "trigger",
            "epochs that end, for EachEpoch()",
            None,
            "a field `epochs`: a list of times, or `every 1 MINUTE`.",
        )
    if not waits_for_watermark(setting.trigger):
        return
    if steps == ():
        refuse("trigger", "a watermark, since it can never fire without one", None, "`watermark_steps`.")
    ends = isinstance(steps, tuple) and steps[-1].watermark == FOREVER
    if isinstance(setting.window, Global) and not ends:
        msg = "trigger: expected one that can fire, got one that waits for the watermark to pass the end of the global "
        msg += (
            "window, which this one never does.\nHint: a last step to `+inf`, or a trigger such as AtPeriod or AtCount."
        )
        raise DefinitionError(msg)
