"""What came out against what a file says should: pane by pane in order, then dropped rows and rows in no pane.

A pane that came out and one that is expected are held against one another if they are of the same window, key and side
(a value, or a retraction), in the same order; what has no counterpart is missing, or one too many.
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
from cutover.scenarios.reading.file_form import DroppedForm, PaneForm, WaitingForm
from cutover.scenarios.reading.scenario import Expected, Scenario
from cutover.scenarios.reading.times import Style, write

ALIGNED = 2_000
"""Panes up to which a missing one does not shift all that follow; more are held against one another in order."""

Line = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaneDifference:
    """One line of a comparison; None: there is none on this side."""

    of: str  # pane, dropped, waiting
    position: int  # from 1, in what is expected, or (where nothing is) in what came out
    expected: str | None
    got: str | None


def differences(scenario: Scenario, expected: Expected, outcome: Outcome) -> tuple[PaneDifference, ...]:
    """Return what differs; nothing if all that the file names is what came out."""
    found = _panes(scenario, expected, outcome)
    style = scenario.style
    if expected.dropped is not None:
        wanted = [_of_dropped_form(one, style) for one in expected.dropped]
        found += _lines("dropped", wanted, [_of_dropped(one, style) for one in outcome.dropped])
    if expected.waiting is not None:
        held = [_of_waiting_form(one, style) for one in expected.waiting]
        found += _lines("waiting", held, [_of_waiting(one, style) for one in outcome.waiting])
    return tuple(found)


def _panes(scenario: Scenario, expected: Expected, outcome: Outcome) -> list[PaneDifference]:
    wanted, got = expected.panes, outcome.panes
    found = []
    for i, j in _pairs([_place_of_form(one) for one in wanted], [_place(one) for one in got]):
        if i is not None and j is not None and _is_equal(scenario, wanted[i], got[j], expected.within):
            continue
        found.append(
            PaneDifference(
                of="pane",
                position=(i if i is not None else j or 0) + 1,
                expected=None if i is None else _format_form(wanted[i], scenario.style),
                got=None if j is None else _format_pane(scenario, got[j], wanted[i] if i is not None else None),
            )
        )
    return found


def _pairs(wanted: Sequence[Line], lines: Sequence[Line]) -> list[tuple[int | None, int | None]]:
    """Return positions that belong together; None where one side has nothing."""
    if max(len(wanted), len(lines)) > ALIGNED:
        return list(zip_longest(range(len(wanted)), range(len(lines))))
    found: list[tuple[int | None, int | None]] = []
    for _, i, i_end, j, j_end in SequenceMatcher(None, wanted, lines, autojunk=False).get_opcodes():
        if i_end - i == j_end - j and wanted[i:i_end] == lines[j:j_end]:
            found += zip(range(i, i_end), range(j, j_end), strict=True)
        else:
            found += [*((at, None) for at in range(i, i_end)), *((None, at) for at in range(j, j_end))]
    return found


def _place(pane: Pane) -> Line:
    return (_end(pane.window.start), _end(pane.window.end), type(pane.key), pane.key, pane.is_retraction)


def _place_of_form(form: PaneForm) -> Line:
    back = form.kind == "retraction" or form.retracts is not None
    return (form.window_start.micros, form.window_end.micros, type(form.key), form.key, back)


def _end(micros: int) -> int:
    return {EARLIEST: -FOREVER, LATEST: FOREVER}.get(micros, micros)


def _is_equal(scenario: Scenario, form: PaneForm, pane: Pane, within: int) -> bool:
    given = {
        "kind": pane.kind,
        "timing": pane.timing.value,
        "index": pane.index,
        "with_pane": pane.timing.value if pane.is_retraction else None,
    }
    return (
        all(getattr(form, name) in {None, value} for name, value in given.items())
        and _same_number(form.value, value_of(scenario, pane))
        and (form.retracts is None or _same_number(form.retracts, pane.value if pane.is_retraction else None))
        and (form.processing_time is None or abs(form.processing_time.micros - pane.processing_time) <= within)
    )


def value_of(scenario: Scenario, pane: Pane) -> Any:
    """Return what adding a pane adds: of a retraction minus what it takes back, None where nothing can be added."""
    if not pane.is_retraction:
        return pane.value
    can_add = isinstance(scenario.setting.measure, (Sum, Count)) and pane.value is not None
    return -pane.value if can_add else None


def _same_number(expected: Any, got: Any) -> bool:
    """Return whether two numbers are equal, or the expected one is the other as `--json` prints it."""
    if expected is None or got is None:
        return expected is got
    if isinstance(got, float):
        return float(expected) == got
    return bool(expected == got) or (not float(got).is_integer() and expected == Decimal(repr(float(got))))


def _format_form(form: PaneForm, style: Style) -> str:
    at = None if form.processing_time is None else write(form.processing_time.micros, style)
    window = (write(form.window_start.micros, style), write(form.window_end.micros, style))
    more = {name: getattr(form, name) for name in _MORE if getattr(form, name) is not None}
    return _line(at, window, form.key, form.value, form.kind, more)


def _format_pane(scenario: Scenario, pane: Pane, form: PaneForm | None) -> str:
    style = scenario.style
    window = (write(pane.window.start, style), write(pane.window.end, style))
    known = {
        "timing": pane.timing.value,
        "index": pane.index,
        "retracts": pane.value if pane.is_retraction else None,
        "with_pane": pane.timing.value if pane.is_retraction else None,
    }
    more = {name: value for name, value in known.items() if form is not None and getattr(form, name) is not None}
    return _line(write(pane.processing_time, style), window, pane.key, value_of(scenario, pane), pane.kind, more)


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
        *(f"{name} {one}" for name, one in more.items()),
    ]
    return " ".join(parts)


def _lines(of: str, wanted: Sequence[str], got: Sequence[str]) -> list[PaneDifference]:
    pairs = _pairs([(one,) for one in wanted], [(one,) for one in got])
    return [
        PaneDifference(
            of=of,
            position=(i if i is not None else j or 0) + 1,
            expected=None if i is None else wanted[i],
            got=None if j is None else got[j],
        )
        for i, j in pairs
        if i is None or j is None or wanted[i] != got[j]
    ]


def _of_dropped_form(form: DroppedForm, style: Style) -> str:
    times = [form.event_time, form.processing_time, form.window_start, form.window_end]
    return _format_dropped([write(moment.micros, style) for moment in times], form.key, form.reason)


def _of_dropped(one: Dropped, style: Style) -> str:
    times = [one.row.event_time, one.row.processing_time, one.window.start, one.window.end]
    return _format_dropped([write(micros, style) for micros in times], one.row.key, one.reason.value)


def _format_dropped(times: Sequence[str], key: object, reason: str) -> str:
    event, arrived, start, end = times
    return f"{event} at {arrived} [{start}, {end}){'' if key is None else f' key {key!r}'} {reason}"


def _of_waiting_form(form: WaitingForm, style: Style) -> str:
    return _format_waiting(lambda micros: write(micros, style), form.window_start.micros, form.window_end.micros, form)


def _of_waiting(waiting: Waiting, style: Style) -> str:
    return _format_waiting(lambda micros: write(micros, style), waiting.window.start, waiting.window.end, waiting)


def _format_waiting(text: Callable[[int], str], start: int, end: int, one: WaitingForm | Waiting) -> str:
    key = "" if one.key is None else f" key {one.key!r}"
    return f"[{text(start)}, {text(end)}){key} {one.rows} rows"
