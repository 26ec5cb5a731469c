"""Validated scenario: the setting for every runner, the style of its times, and the expected outcome."""

from dataclasses import dataclass

from cutover.panes.model import Setting
from cutover.scenarios.reading.file_form import DroppedForm, PaneForm, WaitingForm
from cutover.scenarios.reading.times import Style


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
