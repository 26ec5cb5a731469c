"""Settings in force: what a process says that it runs with, and where those of several processes differ. Pure."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Families = Mapping[str, Mapping[str, str]]

NOT_SET = "not set"


@dataclass(frozen=True, slots=True)
class InForce:
    """Item to value in families (`spark`, `jvm`, `jars`, `versions`, `duckdb`, `records`, `code`, ...).

    A process reports the families that it has: a reader without a JVM has no `spark`. What a family that it reports
    does not name is not set there.
    """

    families: Families

    @property
    def digest(self) -> str:
        """Hash all families, 16 hex digits: equal digests mean equal settings."""
        text = json.dumps(self.families, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """Who ran with what: `the stream, epochs 0 to 41`."""

    who: str
    in_force: InForce


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One item that not all ran with alike."""

    item: str  # family and name
    values: tuple[tuple[str, str], ...]  # (who, value), those of one value together

    @property
    def text(self) -> str:
        """Return the item and who ran with which value."""
        found = "; ".join(f"{who} ran with `{value}`" for who, value in self.values)
        return f"Setting in force, {self.item}: expected one value, got several: {found}."


def drifts(sides: Sequence[Ran]) -> tuple[Drift, ...]:
    """Return every item that differs between those who report its family, by name.

    Args:
        sides: In the order in which messages name them.
    """
    families = sorted({family for side in sides for family in side.in_force.families})
    return tuple(drift for family in families for drift in _drifts(sides, family))


def _drifts(sides: Sequence[Ran], family: str) -> list[Drift]:
    reports = [(side.who, side.in_force.families[family]) for side in sides if family in side.in_force.families]
    found = []
    for name in sorted({name for _, items in reports for name in items}):
        by_value: dict[str, list[str]] = {}
        for who, items in reports:
            by_value.setdefault(items.get(name, NOT_SET), []).append(who)
        if len(by_value) > 1:
            values = tuple((" and ".join(names), value) for value, names in by_value.items())
            found.append(Drift(item=f"{family} `{name}`", values=values))
    return found
