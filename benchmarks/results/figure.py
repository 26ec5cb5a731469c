"""Figure of one module: measured values with their goals, the samples, and the compared results."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Self

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """Measured value of a goal: the median over the rounds, and the lowest and highest round."""

    goal: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """Labelled moment on the x axis of a curve."""

    at: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Lines over time, drawn into one plot."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Points]
    marks: tuple[Marked, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Result of one module."""

    name: str
    title: str
    values: tuple[Value, ...]
    sizes: Mapping[str, float]  # such as events or rounds
    unit: str  # of the samples
    samples: Mapping[str, tuple[float, ...]]  # one number per measured round, by variant
    equal: tuple[str, ...] = ()  # results of peers that are equal; a difference raises an error instead
    notes: tuple[str, ...] = ()
    curve: Curve | None = None
    machine: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    full: bool = True  # measured at the sizes of the goals

    def to_json(self) -> str:
        """Encode the figure as JSON."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a figure from a file that was encoded by `to_json`."""
        raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        curve = raw["curve"]
        return cls(
            **raw
            | {
                "values": tuple(Value(**value) for value in raw["values"]),
                "samples": {name: tuple(numbers) for name, numbers in raw["samples"].items()},
                "equal": tuple(raw["equal"]),
                "notes": tuple(raw["notes"]),
                "curve": None if curve is None else _parse_curve(curve),
            }
        )


def _parse_curve(raw: dict[str, Any]) -> Curve:
    lines = {name: tuple((x, y) for x, y in points) for name, points in raw["lines"].items()}
    return Curve(**raw | {"lines": lines, "marks": tuple(Marked(**mark) for mark in raw["marks"])})


def value(goal: str, numbers: tuple[float, ...]) -> Value:
    """Compute the value of a goal from its rounds."""
    return Value(goal=goal, value=round(median(numbers), 4), low=round(min(numbers), 4), high=round(max(numbers), 4))


def ratio(goal: str, numerators: tuple[float, ...], denominators: tuple[float, ...]) -> Value:
    """Compute the value of a goal as a ratio, computed within each round."""
    return value(goal, tuple(a / b for a, b in zip(numerators, denominators, strict=True)))
