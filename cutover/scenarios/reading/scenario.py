"""One scenario, read and checked: what every runner is given, how its times are written, and what is expected of it."""

from dataclasses import dataclass

from cutover.panes.model import Setting
from cutover.scenarios.reading.file_form import DroppedForm, PaneForm, WaitingForm
from cutover.scenarios.reading.times import Style


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a file says should come out; None of what it does not speak of."""

    panes: tuple[PaneForm, ...]
    within: int = 0  # microseconds by which the processing time of a pane may differ
    dropped: tuple[DroppedForm, ...] | None = None
    waiting: tuple[WaitingForm, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What a runner simulates."""

    title: str
    case: int | None
    setting: Setting
    style: Style
    expected: Expected | None = None
