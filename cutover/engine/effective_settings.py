"""Effective settings of processes, and the items in which several processes differ. Pure."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Families = Mapping[str, Mapping[str, str]]

NOT_SET = "not set"


@dataclass(frozen=True, slots=True)
class EffectiveSettings:
    """Effective settings of a process: values by item in families (`spark`, `jvm`, `jars`, `duckdb`, `code`, ...).

    A process reports only the families that it has: a reader without a JVM has no `spark`. An item that a reported
    family does not contain is not set.
    """

    families: Families

    @property
    def digest(self) -> str:
        """Hash all families, 16 hex digits: equal digests mean equal settings."""
        text = json.dumps(self.families, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedSettings:
    """Effective settings with the process that reported them, such as `the stream in epochs 0 to 41`."""

    reporter: str
    settings: EffectiveSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Item whose value differs between processes."""

    item: str  # family and name
    values: tuple[tuple[str, str], ...]  # (reporters, value), one pair per value

    @property
    def text(self) -> str:
        """Return a sentence with the item and the reporters of each value."""
        values = "; ".join(f"{reporters} ran with `{value}`" for reporters, value in self.values)
        return f"Setting in force, {self.item}: expected one value, got several: {values}."


def find_drifts(sides: Sequence[ReportedSettings]) -> tuple[Drift, ...]:
    """Find the items whose values differ between the processes that report their family, by name.

    Args:
        sides: Reported settings, in the order in which messages name them.
    """
    families = sorted({family for side in sides for family in side.settings.families})
    return tuple(drift for family in families for drift in _find_family_drifts(sides, family))


def _find_family_drifts(sides: Sequence[ReportedSettings], family: str) -> list[Drift]:
    reports = [(side.reporter, side.settings.families[family]) for side in sides if family in side.settings.families]
    drifts = []
    for name in sorted({name for _, items in reports for name in items}):
        reporters_by_value: dict[str, list[str]] = {}
        for reporter, items in reports:
            reporters_by_value.setdefault(items.get(name, NOT_SET), []).append(reporter)
        if len(reporters_by_value) > 1:
            values = tuple((" and ".join(names), value) for value, names in reporters_by_value.items())
            drifts.append(Drift(item=f"{family} `{name}`", values=values))
    return drifts
