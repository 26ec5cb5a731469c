"""Context of one benchmark run: installation, sizes, and objects that several figures share."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from benchmarks.results.figure import Figure
from cutover.engine.spark import session
from cutover.errors import DefinitionError
from cutover.settings import Settings

Shared = TypeVar("Shared")
BACKLOG_ROWS = 1_000_000  # partial rows of an epoch that the driver accepts
BACKLOG_NOTE = f"Ours drains with `stream.overflow_rows` at {BACKLOG_ROWS:,}, in epochs of up to 500,000 records."


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Context of one run, with its settings and sizes."""

    settings: Settings
    scale: float = 1.0  # fraction of the goals' sizes
    rounds: int = 3  # measured rounds
    minutes: float = 5.0  # duration of the overload
    into: Path = Path("docs")  # folder with earlier figures
    wanted_rate: float | None = None  # sustained events per second; None: as measured before
    _shared: dict[str, Any] = field(default_factory=dict)

    def sized(self, full: int, *, least: int = 1) -> int:
        """Scale the size of a goal to this run, to at least `least`."""
        return max(least, round(full * self.scale))

    def once(self, name: str, make: Callable[[], Shared]) -> Shared:
        """Return the object with a name, which the first call makes."""
        if name not in self._shared:
            self._shared[name] = make()
        value: Shared = self._shared[name]
        return value

    def for_backlog(self) -> "Bench":
        """Copy this context with settings that drain a backlog in few, large epochs."""
        stream = self.settings.stream.model_copy(update={"overflow_rows": BACKLOG_ROWS})
        return replace(self, settings=self.settings.model_copy(update={"stream": stream}))

    @property
    def rate(self) -> float:
        """Sustained events per second of this machine, from `--rate` or from the figure `sustained`.

        Raises:
            DefinitionError: The rate is neither given nor measured.
        """
        file = self.into / "benchmarks" / "sustained.json"
        if self.wanted_rate is None and not file.is_file():
            msg = "`overload`: expected a sustained rate, got none.\nHint: measure `sustained` first, or give --rate."
            raise DefinitionError(msg)
        return self.wanted_rate if self.wanted_rate is not None else Figure.read(file).values[0].value

    @property
    def spark(self) -> SparkSession:
        """Spark session of the run, shared by all compared programs."""
        return self.once("spark", lambda: session(self.settings, app="cutover-benchmarks"))
