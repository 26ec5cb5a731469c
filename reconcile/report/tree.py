"""The differences as a tree: window, then key, then the cells and the records behind them, by partition and offset."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cutover.definition.loading.key_text import format_argument
from cutover.reconcile.result.codec import Scalar
from cutover.reconcile.result.finding import Difference
from cutover.reconcile.result.parts import DifferenceLife, RecordBehind
from cutover.reconcile.result.report import Report

LONGEST_TYPED = 200  # characters of a text that a command line names
OPEN_AT_MOST = 20  # windows before the fold
_Place = tuple[str | None, tuple[tuple[str, Scalar], ...]]


@dataclass(slots=True, kw_only=True)
class KeyBranch:
    """One (window, key) row that differs."""

    key: Mapping[str, Scalar]
    kind: str  # missing, extra or changed
    cause: str
    cells: list[Difference] = field(default_factory=list)
    records: Sequence[RecordBehind] = ()
    life: DifferenceLife | None = None  # when it was first found; None: it has a cause, or no history
    command: str | None = None  # shows it in full; None: its key cannot be typed


@dataclass(slots=True, kw_only=True)
class WindowBranch:
    """One window and its rows that differ, as far as the report lists them."""

    window_start: str
    keys: list[KeyBranch] = field(default_factory=list)

    @property
    def causes(self) -> list[str]:
        """Return the causes of its rows, each once, in the order of the rows."""
        return list(dict.fromkeys(key.cause for key in self.keys))


def build(result: Report) -> list[WindowBranch]:
    """Return the listed differences by window and key, in the order in which the result lists them.

    A difference that names no window has no place in it.
    """
    records: dict[_Place, list[RecordBehind]] = {}
    for record in result.finding.behind:
        records.setdefault(_place(record.window_start, record.key), []).append(record)
    lives = {_place(life.window_start, life.key): life for life in result.lives}
    windows: dict[str, WindowBranch] = {}
    keys: dict[_Place, KeyBranch] = {}
    for cell in result.finding.differences:
        if cell.window_start is None:
            continue
        place = _place(cell.window_start, cell.key)
        if place not in keys:
            keys[place] = KeyBranch(key=cell.key, kind=cell.kind, cause=cell.cause, records=records.get(place, ()))
            keys[place].life = lives.get(place)
            keys[place].command = (
                explain_command(result.finding.pipeline, cell, result.finding.seal.stream_version)
                if result.finding.kind == "pipeline"
                else None
            )
            branch = windows.setdefault(cell.window_start, WindowBranch(window_start=cell.window_start))
            branch.keys.append(keys[place])
        keys[place].cells.append(cell)
    return list(windows.values())


def _place(window: str | None, key: Mapping[str, Scalar]) -> _Place:
    return window, tuple(key.items())


def explain_command(pipeline: str, cell: Difference, version: int | None) -> str | None:
    """Return the command line that explains a cell of a version; None if its key is not one that people type."""
    if cell.window_start is None or not all(map(_can_type, cell.key.values())):
        return None
    return explain_line(pipeline, cell.window_start, cell.key, version)


def explain_line(pipeline: str, window_start: str, key: Mapping[str, Scalar], version: int | None = None) -> str:
    """Return the command line that explains a row, quoted for a shell; a key is never taken for an option."""
    options = ["--version", str(version)] if version else []  # of the first there is no need
    return shlex.join(["cutover", "explain", pipeline, *options, window_start, format_argument(key)])


def _can_type(value: Scalar) -> bool:
    return not isinstance(value, str) or len(value) <= LONGEST_TYPED
