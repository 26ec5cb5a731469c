"""One failure as a value: how it is caused, how we know from outside that it happened, what must hold after it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from cutover.reconcile.result.finding import Verdict

if TYPE_CHECKING:
    from tests.faults.running.rig import Rig

Hold = Callable[["Rig"], Iterable[str]]
"""A check in addition to N1 to N6: yields a sentence for each violation. The table shows its function's name."""

ALWAYS = ("N1", "N2", "N3", "N4", "N5", "N6")
AGREE = frozenset({Verdict.CONSISTENT, Verdict.EXPLAINED})


class Part(StrEnum):
    """Part of an installation that a fault needs; decides how its rig is built."""

    KAFKA = "kafka"  # a new topic on the session's broker
    BROKER = "broker"  # a separate broker, which the fault may harm
    SPARK = "spark"  # the session's Spark, in this process
    LAKE = "lake"  # a home and a lake; every rig has them


STREAM = frozenset({Part.KAFKA, Part.SPARK, Part.LAKE})


def nothing(_: "Rig") -> None:
    """Heal nothing: the fault is over by itself."""


def settle(rig: "Rig") -> None:
    """Read the rest of the log, compute the batch at that cut, compare; close windows first, if all are still open."""
    compare(rig)
    if any(breach.code == "nothing" for breach in rig.reconciliations[-1].finding.seal.breaches):
        rig.close_windows()
        compare(rig)


def compare(rig: "Rig") -> None:
    """Read the rest of the log, compute the batch at that cut, compare."""
    rig.drain()
    rig.batch()
    rig.reconcile()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One failure.

    The order of a run: `inject`, `happened`, alert and exit code, `heal`, `settle`, the verdict, N1 to N6 with the
    oracle, `holds`.
    """

    id: str  # "F03"
    variant: str = ""  # "a", "b-longer": several faults of one id
    family: str  # a section of the page: `TITLES` of tests.faults.table
    title: str
    inject: Callable[["Rig"], None]
    happened: Callable[["Rig"], bool]  # from outside the system; False: the test is an error, never a pass or a skip
    needs: frozenset[Part] = STREAM
    heal: Callable[["Rig"], None] = nothing
    settle: Callable[["Rig"], None] = settle
    verdicts: frozenset[Verdict] = AGREE  # of the last reconciliation after `settle`; empty: no comparison
    checks: tuple[str, ...] = ALWAYS  # of `cutover verify`, with the oracle; empty: a fault without a log
    holds: tuple[Hold, ...] = ()
    alert: str | None = None  # exactly this one between `inject` and `heal`; None: no alert at all
    also: tuple[str, ...] = ()  # further alerts that must be seen, where a row names several
    may: frozenset[str] = frozenset()  # alerts that may be seen or not
    stays: bool = False  # the alert still fires after `settle`; else it must have gone
    exit_code: int | None = None  # of the process that had to stop; see `Rig.ended` and `Rig.refused`
    limits: Mapping[str, float] = field(default_factory=dict)  # settings of `alerts`, scaled down for this drill
    partitions: int = 2  # of the topic
    quick: bool = False  # runs in `make test`; the others in `make faults`
    timeout_seconds: int = 900  # seconds the whole may take; far beyond what a quiet machine needs

    @property
    def name(self) -> str:
        """Return `F03-overflow`, or `F03` where there is one variant only."""
        return f"{self.id}-{self.variant}" if self.variant else self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class RunElsewhere:
    """A fault that tests of another kind cause."""

    id: str
    variant: str = ""
    family: str
    title: str
    location: str  # the file, and the target that runs it
