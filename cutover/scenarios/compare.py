"""Comparison of an outcome with the one that a file expects: panes in order, then dropped and waiting rows.

An actual and an expected pane are compared if they have the same window, key and side (value or retraction), in the
same order; a pane without a counterpart is missing or unexpected.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

from cutover.definition.measures.kinds import Count, Sum
from cutover.definition.windows.window_fn import EARLIEST, FOREVER, LATEST
from cutover.panes.model import Dropped, Outcome, Pane, Waiting
from cutover.scenarios.reading.forms import DroppedForm, PaneForm, WaitingForm
from cutover.scenarios.reading.setting import Expected, Scenario
from cutover.scenarios.reading.texts import Style, format_scenario_time

ALIGNED = 2_000
"""Number of panes up to which both sides are aligned around missing panes; more are compared by position."""

Line = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaneDifference:
    """Line that differs; None if a side has no such line."""

    of: str  # pane, dropped, waiting
    position: int  # from 1, among the expected lines, or (without an expected line) among the actual ones
    expected: str | None
    actual: str | None


def compare_outcome(scenario: Scenario, expected: Expected, outcome: Outcome) -> tuple[PaneDifference, ...]:
    """Return the differences between an outcome and the expectations of a file; empty if they agree."""
    pane_differences = _compare_panes(scenario, expected, outcome)
    style = scenario.style
    if expected.dropped is not None:
        expected_lines = [_describe_dropped_form(form, style) for form in expected.dropped]
        actual_lines = [_describe_dropped(dropped, style) for dropped in outcome.dropped]
        pane_differences += _compare_lines("dropped", expected_lines, actual_lines)
    if expected.waiting is not None:
        expected_lines = [_describe_waiting_form(form, style) for form in expected.waiting]
        actual_lines = [_describe_waiting(waiting, style) for waiting in outcome.waiting]
        pane_differences += _compare_lines("waiting", expected_lines, actual_lines)
    return tuple(pane_differences)


def _compare_panes(scenario: Scenario, expected: Expected, outcome: Outcome) -> list[PaneDifference]:
    forms, panes = expected.panes, outcome.panes
    pane_differences = []
    for i, j in _align([_place_of_form(form) for form in forms], [_place(pane) for pane in panes]):
        if i is not None and j is not None and _is_equal(scenario, forms[i], panes[j], expected.tolerance):
            continue
        pane_differences.append(
            PaneDifference(
                of="pane",
                position=(i if i is not None else j or 0) + 1,
                expected=None if i is None else _format_form(forms[i], scenario.style),
                actual=None if j is None else _format_pane(scenario, panes[j], forms[i] if i is not None else None),
            )
        )
    return pane_differences


def _align(expected: Sequence[Line], actual: Sequence[Line]) -> list[tuple[int | None, int | None]]:
    """Return pairs of corresponding positions; None where a side has no counterpart."""
    if max(len(expected), len(actual)) > ALIGNED:
        return list(zip_longest(range(len(expected)), range(len(actual))))
    pairs: list[tuple[int | None, int | None]] = []
    for _, i, i_end, j, j_end in SequenceMatcher(None, expected, actual, autojunk=False).get_opcodes():
        if i_end - i == j_end - j and expected[i:i_end] == actual[j:j_end]:
            pairs += zip(range(i, i_end), range(j, j_end), strict=True)
        else:
            pairs += [*((at, None) for at in range(i, i_end)), *((None, at) for at in range(j, j_end))]
    return pairs


def _place(pane: Pane) -> Line:
    return (_end(pane.window.start), _end(pane.window.end), type(pane.key), pane.key, pane.is_retraction)


def _place_of_form(form: PaneForm) -> Line:
    is_retraction = form.kind == "retraction" or form.retracts is not None
    return (form.window_start.micros, form.window_end.micros, type(form.key), form.key, is_retraction)


def _end(micros: int) -> int:
    return {EARLIEST: -FOREVER, LATEST: FOREVER}.get(micros, micros)


def _is_equal(scenario: Scenario, form: PaneForm, pane: Pane, tolerance: int) -> bool:
    actual = {
        "kind": pane.kind,
        "timing": pane.timing.value,
        "index": pane.index,
        "with_pane": pane.timing.value if pane.is_retraction else None,
    }
    return (
        all(getattr(form, name) in {None, value} for name, value in actual.items())
        and _is_same_number(form.value, compute_contribution(scenario, pane))
        and (form.retracts is None or _is_same_number(form.retracts, pane.value if pane.is_retraction else None))
        and (form.processing_time is None or abs(form.processing_time.micros - pane.processing_time) <= tolerance)
    )


def compute_contribution(scenario: Scenario, pane: Pane) -> Any:
    """Return the contribution of a pane: for a retraction, minus the withdrawn value, or None if it is not additive."""
    if not pane.is_retraction:
        return pane.value
    can_add = isinstance(scenario.setting.measure, (Sum, Count)) and pane.value is not None
    return -pane.value if can_add else None


def _is_same_number(expected: Any, actual: Any) -> bool:
    """Return whether two numbers are equal, or the expected one is the actual one as `--json` prints it."""
    if expected is None or actual is None:
        return expected is actual
    if isinstance(actual, float):
        return float(expected) == actual
    return bool(expected == actual) or (not float(actual).is_integer() and expected == Decimal(repr(float(actual))))


def _format_form(form: PaneForm, style: Style) -> str:
    at = None if form.processing_time is None else format_scenario_time(form.processing_time.micros, style)
    window = (
        format_scenario_time(form.window_start.micros, style),
        format_scenario_time(form.window_end.micros, style),
    )
    more = {name: getattr(form, name) for name in _MORE if getattr(form, name) is not None}
    return _line(at, window, form.key, form.value, form.kind, more)


def _format_pane(scenario: Scenario, pane: Pane, form: PaneForm | None) -> str:
    style = scenario.style
    window = (format_scenario_time(pane.window.start, style), format_scenario_time(pane.window.end, style))
    fields = {
        "timing": pane.timing.value,
        "index": pane.index,
        "retracts": pane.value if pane.is_retraction else None,
        "with_pane": pane.timing.value if pane.is_retraction else None,
    }
    more = {name: value for name, value in fields.items() if form is not None and getattr(form, name) is not None}
    return _line(
        format_scenario_time(pane.processing_time, style),
        window,
        pane.key,
        compute_contribution(scenario, pane),
        pane.kind,
        more,
    )


_MORE = ("timing", "index", "retracts", "with_pane")


def _line(
    at: str | None, window: tuple[str, str], key: object, value: object, kind: str | None, more: dict[str, Any]
) -> str:
    parts = [
        *([] if at is None else [f"at {at}"]),
        f"[{window[0]}, {window[1]})",
        *([] if key is None else [f"key {key!r}"]),
        "null" if value is None else str(value),
        *([] if kind is None else [kind]),
        *(f"{name} {field}" for name, field in more.items()),
    ]
    return " ".join(parts)


def _compare_lines(of: str, expected: Sequence[str], actual: Sequence[str]) -> list[PaneDifference]:
    pairs = _align([(line,) for line in expected], [(line,) for line in actual])
    return [
        PaneDifference(
            of=of,
            position=(i if i is not None else j or 0) + 1,
            expected=None if i is None else expected[i],
            actual=None if j is None else actual[j],
        )
        for i, j in pairs
        if i is None or j is None or expected[i] != actual[j]
    ]


def _describe_dropped_form(form: DroppedForm, style: Style) -> str:
    times = [form.event_time, form.processing_time, form.window_start, form.window_end]
    return _format_dropped([format_scenario_time(moment.micros, style) for moment in times], form.key, form.reason)


def _describe_dropped(dropped: Dropped, style: Style) -> str:
    row, window = dropped.row, dropped.window
    times = [row.event_time, row.processing_time, window.start, window.end]
    return _format_dropped([format_scenario_time(micros, style) for micros in times], row.key, dropped.reason.value)


def _format_dropped(times: Sequence[str], key: object, reason: str) -> str:
    event_time, processing_time, start, end = times
    return f"{event_time} at {processing_time} [{start}, {end}){'' if key is None else f' key {key!r}'} {reason}"


def _describe_waiting_form(form: WaitingForm, style: Style) -> str:
    return _format_waiting(
        lambda micros: format_scenario_time(micros, style), form.window_start.micros, form.window_end.micros, form
    )


def _describe_waiting(waiting: Waiting, style: Style) -> str:
    return _format_waiting(
        lambda micros: format_scenario_time(micros, style), waiting.window.start, waiting.window.end, waiting
    )


def _format_waiting(text: Callable[[int], str], start: int, end: int, waiting: WaitingForm | Waiting) -> str:
    key = "" if waiting.key is None else f" key {waiting.key!r}"
    return f"[{text(start)}, {text(end)}){key} {waiting.rows} rows"
