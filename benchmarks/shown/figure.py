"""What one module measured: values against goals, the samples behind them, and what was found equal."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Self

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One measured value of a goal: the median over the rounds, and the lowest and highest of them."""

    goal: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """A moment on a curve's x axis."""

    at: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Points over time, drawn into one picture."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Points]
    marks: tuple[Marked, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """The result of one module."""

    name: str
    title: str
    values: tuple[Value, ...]
    sizes: Mapping[str, float]  # what was measured, such as events or rounds
    unit: str  # of the samples
    samples: Mapping[str, tuple[float, ...]]  # variant -> one number a counted round
    equal: tuple[str, ...] = ()  # what was compared and found equal; a difference raises instead
    notes: tuple[str, ...] = ()
    curve: Curve | None = None
    machine: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    full: bool = True  # measured at the sizes of the goals

    def to_json(self) -> str:
        """Return the figure as JSON text."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the figure that `to_json` wrote to a file."""
        raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        curve = raw["curve"]
        return cls(
            **raw
            | {
                "values": tuple(Value(**value) for value in raw["values"]),
                "samples": {name: tuple(numbers) for name, numbers in raw["samples"].items()},
                "equal": tuple(raw["equal"]),
                "notes": tuple(raw["notes"]),
                "curve": None if curve is None else _curve(curve),
            }
        )


def _curve(raw: dict[str, Any]) -> Curve:
    lines = {name: tuple((x, y) for x, y in points) for name, points in raw["lines"].items()}
    return Curve(**raw | {"lines": lines, "marks": tuple(Marked(**mark) for mark in raw["marks"])})


def value(goal: str, numbers: tuple[float, ...]) -> Value:
    """Return the value of a goal from its rounds."""
    return Value(goal=goal, value=round(median(numbers), 4), low=round(min(numbers), 4), high=round(max(numbers), 4))


def ratio(goal: str, above: tuple[float, ...], below: tuple[float, ...]) -> Value:
    """Return a value whose rounds are pairs: what was measured side by side is divided side by side."""
    return value(goal, tuple(a / b for a, b in zip(above, below, strict=True)))
