"""What a figure is handed: an installation, sizes, and what other figures of the same run have made already."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from benchmarks.shown.figure import Figure
from cutover.engine.spark import session
from cutover.errors import DefinitionError
from cutover.settings import Settings

Made = TypeVar("Made")
BACKLOG_ROWS = 1_000_000  # partial rows that the driver takes
BACKLOG_NOTE = f"Ours drains with `stream.overflow_rows` at {BACKLOG_ROWS:,}, in epochs of up to 500,000 records."


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One run."""

    settings: Settings
    scale: float = 1.0  # of the sizes that the goals name
    rounds: int = 3  # counted ones
    minutes: float = 5.0  # of overload
    into: Path = Path("docs")  # where earlier figures are
    wanted_rate: float | None = None  # events a second that are kept up; None: as measured before
    _made: dict[str, Any] = field(default_factory=dict)

    def sized(self, full: int, *, least: int = 1) -> int:
        """Return a size of this run."""
        return max(least, round(full * self.scale))

    def once(self, name: str, make: Callable[[], Made]) -> Made:
        """Return what was made under a name, made on the first call."""
        if name not in self._made:
            self._made[name] = make()
        found: Made = self._made[name]
        return found

    def of_backlog(self) -> "Bench":
        """Return this run with a driver that drains a backlog in few and large epochs."""
        stream = self.settings.stream.model_copy(update={"overflow_rows": BACKLOG_ROWS})
        return replace(self, settings=self.settings.model_copy(update={"stream": stream}))

    @property
    def rate(self) -> float:
        """Return the events a second that this machine keeps up with, as `sustained` has found.

        Raises:
            DefinitionError: Nobody has measured or named it.
        """
        file = self.into / "benchmarks" / "sustained.json"
        if self.wanted_rate is None and not file.is_file():
            msg = "`overload`: expected a sustained rate, got none.\nHint: measure `sustained` first, or give --rate."
            raise DefinitionError(msg)
        return self.wanted_rate if self.wanted_rate is not None else Figure.read(file).values[0].value

    @property
    def spark(self) -> SparkSession:
        """Return the run's session, the same for all that is compared."""
        return self.once("spark", lambda: session(self.settings, app="cutover-benchmarks"))
