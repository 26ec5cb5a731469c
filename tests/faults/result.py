"""Result of a fault: one line of JSON, appended when its run ends, however it ends."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run of one fault."""

    fault: str  # name: id and variant
    outcome: Literal["proven", "not proven"]
    why: str = ""  # what did not hold, or that the fault did not happen
    checks: tuple[str, ...] = ()  # of N1 to N6, those that held
    holds: tuple[str, ...] = ()  # the fault's own, those that held
    alerts: tuple[str, ...] = ()  # seen between the fault and its healing
    cleared: bool = False  # none of them fired at the end
    exit_code: int | None = None
    verdict: str | None = None
    seconds: float = 0.0
    seed: int = 0
    sometimes: tuple[str, ...] = ()
    evidence: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return one line."""
        return json.dumps(asdict(self), sort_keys=True, default=str)

    def line(self) -> str:
        """Return the line shown while other faults still run."""
        code = "-" if self.exit_code is None else self.exit_code
        alerts = ",".join(self.alerts) or "silent"
        return f"{self.fault:<18} {self.outcome:<10} {self.seconds:6.1f} s  exit {code!s:<3} {alerts}  {self.why[:200]}"

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Return the result of a line."""
        raw: dict[str, Any] = json.loads(line)
        lists = {name: tuple(value) for name, value in raw.items() if isinstance(value, list)}
        return cls(**(raw | lists))


def append(file: Path, result: Result) -> None:
    """Add a line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as log:
        log.write(result.to_json() + "\n")


def read(file: Path) -> dict[str, Result]:
    """Return the newest result of each fault."""
    lines: Iterable[str] = file.read_text(encoding="utf-8").splitlines() if file.exists() else ()
    return {line.fault: line for line in map(Result.from_json, lines)}


def retain_newest(file: Path, fault_names: Iterable[str]) -> dict[str, Result]:
    """Leave one line of each known fault, the newest, in the order of their names; return them."""
    newest, names = read(file), frozenset(fault_names)
    retained = {name: newest[name] for name in sorted(newest) if name in names}
    file.write_text("".join(result.to_json() + "\n" for result in retained.values()), encoding="utf-8")
    return retained
