"""Facts about a pipeline at one moment, gathered once: every alert is decided by these alone.

A fact that could not be read is `UnknownFact`, never zero or empty. A rule reads it by `known`, which stops the rule:
its alerts are then undecided, and the source that cannot be read has an alert of its own.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from cutover.definition.model.pipeline import Pipeline
from cutover.driver_state import DriverState
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.watch.lag import LagSample
from cutover.settings import AlertSettings

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownFact:
    """Absence of a fact: a table, file or log that it comes from could not be read."""

    reason: str  # one sentence that names the source


class UnknownFactError(Exception):
    """A rule needs a fact that is unknown, so its alerts are undecided."""


def known(fact: Value | UnknownFact) -> Value:
    """Return the value of a fact.

    Raises:
        UnknownFactError: It could not be read.
    """
    if isinstance(fact, UnknownFact):
        raise UnknownFactError(fact.reason)
    return fact


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """The first record of a kind that the schema does not describe."""

    what: str  # the field and what is wrong with it
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What a table, or the last comparison, said is wrong: the name of its page and one sentence."""

    runbook: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """An epoch that a reader holds, and the table version that the holder read it at, if the pin says so."""

    holder: str
    epoch: int
    expires_at: datetime
    files_until: datetime | None  # when the first of its files may go; None: they are all listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """What an audit of windows found: rows that are served and that the log gives otherwise, without a cause."""

    rows: int  # (window, key)
    first: str  # such a row, in words
    epoch: int
    at: str  # ISO 8601


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """How old something may get."""

    newest: datetime  # when it was made last
    schedule: timedelta  # how often it is to be made
    doubt: timedelta = timedelta(0)  # by how much it may be younger: the clocks that recorded it disagree

    def measure_least_age(self, now: datetime) -> timedelta:
        """Return how old it is at least, whichever clock is wrong."""
        return now - self.newest - self.doubt

    def is_doubtful(self, now: datetime, times: float) -> bool:
        """Return whether it may be older than so many schedules, and no one can tell since the clocks disagree."""
        return now - self.newest > self.schedule * times >= self.measure_least_age(now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How many rows the epoch log was given, by hours that end now; an hour without rows is none."""

    newest: int  # rows of the last hour
    usual: float  # median of the hours of a week before it that had rows; 0 if none had
    hours: int  # that had rows, the last one left out


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchFacts:
    """All facts that alerts are decided by."""

    pipeline: Pipeline
    limits: AlertSettings
    at: datetime
    driver: DriverState | UnknownFact = field(default_factory=DriverState)
    trigger_seconds: float = 0.5
    records: Sequence[EpochRecord] | UnknownFact = ()  # newest epochs, oldest first
    samples: Sequence[LagSample] = ()  # looks at which log and table answered, in order of time
    waiting: int | UnknownFact = 0  # offsets in the log, where no epoch was committed yet
    silent: float | None = None  # seconds that the log has not answered us; None: it does
    expected: Mapping[int, int] | UnknownFact = field(default_factory=dict)  # partition -> next offset, behind losses
    changed: tuple[str, ...] | UnknownFact = ()  # partitions with other records than those that were read
    compacted: tuple[str, ...] | UnknownFact = ()  # topics whose policy removes records inside the log
    lost: tuple[str, ...] | UnknownFact = ()  # epochs of which the log holds fewer records than they read
    retention: timedelta | UnknownFact | None = None  # how long the topic keeps a record; None: for ever, or by size
    replay: timedelta | None = None  # how long what is unread takes to read
    unfit: Sequence[Unfit] | UnknownFact = ()
    free: Mapping[str, int] | UnknownFact = field(default_factory=dict)  # place -> free bytes
    grown: int | UnknownFact = 0  # bytes of ten epochs or of five minutes, whichever is more
    growth: Growth | UnknownFact | None = None  # of the epoch log
    troubles: Sequence[Trouble] = ()  # sources that cannot be read, and tables that contradict each other
    comparison: Sequence[Trouble] | UnknownFact = ()  # what the last comparison found
    checks: Sequence[Trouble] | UnknownFact = ()  # violated invariants
    foreign: Sequence[Trouble] | UnknownFact = ()  # rows that another writer changed
    batch: Freshness | UnknownFact | None = None  # newest batch run; before it, the stream's version; none in KAPPA
    verdict: Freshness | UnknownFact | None = None  # current comparison; before the first, the first batch run
    audit: Freshness | UnknownFact | None = None  # newest conclusive audit; before it, the move; None: none is required
    pins: Sequence[Pin] | UnknownFact = ()
    regression: Regression | UnknownFact | None = None  # that an audit found and nothing has refuted since

    @property
    def newest(self) -> EpochRecord | None:
        """None before the first epoch.

        Raises:
            UnknownFactError: The epoch log cannot be read.
        """
        records = known(self.records)
        return records[-1] if records else None

    @property
    def look(self) -> LagSample | UnknownFact | None:
        """Newest look at the log beside the newest epoch; None before the first."""
        if self.silent is not None:
            return UnknownFact(reason="the broker does not answer")
        if isinstance(self.records, UnknownFact):
            return self.records
        return self.samples[-1] if self.samples else None

    @property
    def sample(self) -> LagSample | None:
        """Newest look at the log beside the newest epoch; None before the first.

        Raises:
            UnknownFactError: The log does not answer, or the epoch log cannot be read.
        """
        return known(self.look)

    @property
    def quiet_seconds(self) -> float | None:
        """Return the time since the newest epoch that read something: time alone commits epochs, too; None: unknown.

        Raises:
            UnknownFactError: The epoch log cannot be read.
        """
        came = next((record for record in reversed(known(self.records)) if not record.tick), None)
        return None if came is None else self.ages.get(came.epoch)

    @property
    def ages(self) -> Mapping[int, float]:
        """Seconds since each of the newest epochs was committed, by its number; of those that have a time.

        Raises:
            UnknownFactError: The epoch log cannot be read.
        """
        return measure_ages(known(self.records), None if isinstance(self.driver, UnknownFact) else self.driver, self.at)

    def recent(self) -> Iterator[EpochRecord]:
        """Yield the epochs of the time over which shares are taken.

        Raises:
            UnknownFactError: The epoch log cannot be read.
        """
        ages = self.ages
        yield from (r for r in known(self.records) if ages.get(r.epoch, math.inf) <= self.limits.rate_seconds)


def measure_ages(records: Sequence[EpochRecord], driver: DriverState | None, now: datetime) -> dict[int, float]:
    """Return the seconds since epochs were committed, by their numbers; none is younger than a later one.

    The time between two epochs is told by the clock of their driver, whatever hour it shows; one that went back between
    them says nothing. The newest epoch is as old as that clock says, if it still beats.

    Args:
        records: In their order; those without a time are left out.
        driver: That is there now; None: not known.
        now: By our clock.
    """
    ahead = driver.ahead if driver is not None and driver.alive else 0.0
    later, age = now + timedelta(seconds=ahead), 0.0
    ages: dict[int, float] = {}
    for record in reversed(records):
        if record.processing_time:
            at = datetime.fromisoformat(record.processing_time)
            age += max(0.0, (later - at).total_seconds())
            ages[record.epoch], later = age, at
    return ages


def seconds_since(moment: str | None, now: datetime) -> float | None:
    """Return the seconds from an ISO time to now; None where there is no time."""
    return None if not moment else (now - datetime.fromisoformat(moment)).total_seconds()
