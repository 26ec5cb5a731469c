"""Facts about a pipeline at one moment, collected once, and an alert as a rule over them.

A fact that could not be read is an `UnknownFact`, never zero or empty. A rule reads a fact by `require`, which ends the
rule if the fact is unknown: its alert is then undecided, and the unreadable source is reported as a problem. An alert
is one value: its rule, its severity and owner, its limits, what it suppresses, its drill. Samples of log, newest epoch
and driver show how the stream moves.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Literal, TypeVar

from cutover.definition.model.pipeline import Pipeline
from cutover.driver_state import DriverState
from cutover.lake.epochs.delivery import count_unread
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.log import topic_partitions
from cutover.recorded_times import CLOCKS_APART
from cutover.settings import AlertSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSample:
    """State of log, newest epoch and driver at one moment."""

    at: datetime
    monotonic: float  # the same moment on a clock that never moves back, seconds: for the time between two samples
    epoch: EpochRecord  # newest
    end_offsets: Mapping[int, int]  # partition -> next offset for a reader of the definition's isolation
    high_watermarks: Mapping[int, int] = field(default_factory=dict)  # partition -> next offset, open transactions too
    start_offsets: Mapping[int, int] = field(default_factory=dict)  # partition -> first offset that the log still has
    topic_id: str | None = None
    driver: DriverState | None = field(default_factory=DriverState)  # None: its heartbeat cannot be read
    first_unread_times: Mapping[int, int] = field(default_factory=dict)  # partition -> log time, microseconds
    newest_times: Mapping[int, int] = field(default_factory=dict)  # partition -> log time, microseconds

    @property
    def unread(self) -> int:
        """Number of unread offsets of all partitions."""
        return count_unread(self.end_offsets, self.epoch.end)


def compute_max_ahead_micros(pipeline: Pipeline, limits: AlertSettings) -> int:
    """Compute how far a watermark may pass the newest log time, also where the definition accepts any event time."""
    max_ahead = min(pipeline.lateness.max_ahead_micros, int(limits.ahead_seconds * 1e6))
    return max_ahead - pipeline.lateness.out_of_orderness_micros


def compute_reported_seconds(driver: DriverState, since_time: str | None, now: datetime) -> float:
    """Compute how long a state has lasted that the driver reports, corrected by its clock; 0 if it reports none."""
    return 0.0 if since_time is None else (now - datetime.fromisoformat(since_time)).total_seconds() + driver.ahead


def measure_quiet_seconds(samples: Sequence[LagSample]) -> float:
    """Measure for how long the log has had the ends that it has now, as far as the samples show."""
    if not samples:
        return 0.0
    newest = samples[-1]
    unchanged = takewhile(lambda sample: sample.end_offsets == newest.end_offsets, reversed(samples))
    return newest.monotonic - min(sample.monotonic for sample in unchanged)


def find_holding_partition(sample: LagSample) -> int | None:
    """Find the partition that holds the watermark: one with only unread records, else the one with the oldest event."""
    epoch = sample.epoch
    active = [p for p in sample.end_offsets if p not in epoch.idle]
    unread = [p for p in active if p not in epoch.max_event and sample.end_offsets[p] > epoch.end.get(p, 0)]
    if unread:
        return unread[0]
    newest_events = {p: epoch.max_event[p] for p in active if p in epoch.max_event}
    return min(newest_events, key=lambda p: newest_events[p]) if newest_events else None


Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownFact:
    """Absence of a fact: the table, file or log that it comes from could not be read."""

    reason: str  # one sentence that names the source


class UnknownFactError(Exception):
    """A rule needs a fact that is unknown, so its alert is undecided."""


def require(fact: Value | UnknownFact) -> Value:
    """Return the value of a fact.

    Raises:
        UnknownFactError: It could not be read.
    """
    if isinstance(fact, UnknownFact):
        raise UnknownFactError(fact.reason)
    return fact


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaMismatch:
    """First record of a kind that the schema does not describe."""

    description: str  # the field and what is wrong with it
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Problem that a table, a driver or the latest comparison reports: the name of its runbook, and one sentence."""

    runbook: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """Epoch that a reader holds."""

    holder: str
    epoch: int
    expires_at: datetime
    files_until: datetime | None  # when the first of its files may be deleted; None: they are all listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """Rows that are served and whose values differ from the log without a cause, as an audit of windows found them."""

    rows: int  # (window, key)
    example: str  # one of these rows, in words
    epoch: int
    at: str  # ISO 8601


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """Time of the latest result of a kind, and the schedule that it is expected by."""

    latest: datetime
    schedule: timedelta  # expected time between two results
    uncertainty: timedelta = timedelta(0)  # by how much the result may be younger, where clocks disagree

    def compute_minimum_age(self, now: datetime) -> timedelta:
        """Compute the age that the result has at least, whichever clock is wrong."""
        return now - self.latest - self.uncertainty

    def is_undecidable(self, now: datetime, schedules: float) -> bool:
        """Return whether the result may be older than a number of schedules, but the clocks disagree too much."""
        return now - self.latest > self.schedule * schedules >= self.compute_minimum_age(now)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGrowth:
    """Rows added to the epoch log per hour, for hours that end now; an hour without rows does not count."""

    last_hour: int
    usual: float  # median of the hours with rows in the week before; 0 if there were none
    hours: int  # hours with rows, without the last one


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchFacts:
    """All facts that alerts are decided by."""

    pipeline: Pipeline
    limits: AlertSettings
    at: datetime
    driver: DriverState | UnknownFact = field(default_factory=DriverState)
    trigger_seconds: float = 0.5
    epochs: Sequence[EpochRecord] | UnknownFact = ()  # newest epochs, oldest first
    samples: Sequence[LagSample] = ()  # for which log and table answered, in order of time
    unread_before_first_epoch: int | UnknownFact = 0  # offsets in the log
    silent_seconds: float | None = None  # for how long the log has not answered us; None: it answers
    next_offsets: Mapping[int, int] | UnknownFact = field(default_factory=dict)  # by partition, after accepted losses
    rewritten_partitions: tuple[str, ...] | UnknownFact = ()  # that hold other records than those that were read
    compacted_topics: tuple[str, ...] | UnknownFact = ()  # whose policy deletes records inside the log
    lossy_epochs: tuple[str, ...] | UnknownFact = ()  # of which the log holds fewer records than they read
    retention: timedelta | UnknownFact | None = None  # how long the topic keeps a record; None: no limit, or by size
    replay_time: timedelta | None = None  # time to process the unread records
    schema_mismatches: Sequence[SchemaMismatch] | UnknownFact = ()
    free_bytes: Mapping[str, int] | UnknownFact = field(default_factory=dict)  # by place
    recent_growth_bytes: int | UnknownFact = 0  # of ten epochs or of five minutes, whichever is more
    row_growth: RowGrowth | UnknownFact | None = None  # of the epoch log
    problems: Sequence[Problem] = ()  # unreadable sources, and tables that contradict each other
    comparison_problems: Sequence[Problem] | UnknownFact = ()  # of the latest comparison
    violated_checks: Sequence[Problem] | UnknownFact = ()
    foreign_writes: Sequence[Problem] | UnknownFact = ()  # rows that another writer changed
    batch_freshness: Freshness | UnknownFact | None = None  # latest run, or the stream's version; None in KAPPA
    verdict_freshness: Freshness | UnknownFact | None = None  # current comparison, or the first batch run
    audit_freshness: Freshness | UnknownFact | None = None  # latest conclusive audit, or the move; None: not required
    pins: Sequence[Pin] | UnknownFact = ()
    regression: Regression | UnknownFact | None = None  # found by an audit and not refuted since

    def format_partition(self, partition: int) -> str:
        """Return a partition by Kafka's names: a join reads two topics, whose partitions have numbers apart here."""
        return topic_partitions.format_partition(topic_partitions.name_log(self.pipeline), partition)

    @property
    def newest_epoch(self) -> EpochRecord | None:
        """Newest committed epoch; None before the first.

        Raises:
            UnknownFactError: The epoch log cannot be read.
        """
        epochs = require(self.epochs)
        return epochs[-1] if epochs else None

    @property
    def sample_fact(self) -> LagSample | UnknownFact | None:
        """Newest sample of the log and the newest epoch; None before the first."""
        if self.silent_seconds is not None:
            return UnknownFact(reason="the broker does not answer")
        if isinstance(self.epochs, UnknownFact):
            return self.epochs
        return self.samples[-1] if self.samples else None

    @property
    def sample(self) -> LagSample | None:
        """Newest sample of the log and the newest epoch; None before the first.

        Raises:
            UnknownFactError: The log does not answer, or the epoch log cannot be read.
        """
        return require(self.sample_fact)

    @property
    def quiet_seconds(self) -> float | None:
        """Seconds for which nothing was sent, at least, whichever clock is wrong; None: unknown.

        As the driver has seen it, as our own samples have seen it, or since the newest epoch that read records (ticks
        commit epochs without any). The age of an epoch is exact only by the clock of its own driver, unless that was
        set since.

        Raises:
            UnknownFactError: The epoch log cannot be read.
        """
        reading = next((epoch for epoch in reversed(require(self.epochs)) if not epoch.tick), None)
        age = None if reading is None else self.epoch_ages.get(reading.epoch)
        if reading is None or age is None:
            return None
        driver = DriverState() if isinstance(self.driver, UnknownFact) else self.driver
        is_exact = driver.run_id == reading.run_id and not driver.alive
        reported = compute_reported_seconds(driver, driver.quiet_since, self.at) if driver.alive else 0.0
        age -= 0.0 if is_exact else CLOCKS_APART.total_seconds()
        return max(0.0, age, reported, measure_quiet_seconds(self.samples))

    @property
    def epoch_ages(self) -> Mapping[int, float]:
        """Seconds since each of the newest epochs was committed, by its number; epochs without a time are missing.

        Raises:
            UnknownFactError: The epoch log cannot be read.
        """
        driver = None if isinstance(self.driver, UnknownFact) else self.driver
        return compute_epoch_ages(require(self.epochs), driver, self.at)

    def list_recent_epochs(self) -> Iterator[EpochRecord]:
        """Yield the epochs of the last minutes (`alerts.rate_seconds`).

        Raises:
            UnknownFactError: The epoch log cannot be read.
        """
        ages = self.epoch_ages
        yield from (e for e in require(self.epochs) if ages.get(e.epoch, math.inf) <= self.limits.rate_seconds)


def compute_epoch_ages(epochs: Sequence[EpochRecord], driver: DriverState | None, now: datetime) -> dict[int, float]:
    """Compute the seconds since epochs were committed, by their numbers; no epoch is younger than a later one.

    The time between two epochs is measured by the clock of their driver, whatever it is set to; a clock that was set
    back between them contributes nothing. The newest epoch is as old as that clock shows, if the heartbeat is of the
    driver that wrote it, or of one that is alive.

    Args:
        epochs: In order; those without a time are left out.
        driver: Current state; None: unknown.
        now: By our clock.
    """
    is_known = driver is not None and (driver.alive or (bool(epochs) and driver.run_id == epochs[-1].run_id))
    ahead = driver.ahead if driver is not None and is_known else 0.0
    later, age = now + timedelta(seconds=ahead), 0.0
    ages: dict[int, float] = {}
    for epoch in reversed(epochs):
        if epoch.processing_time:
            at = datetime.fromisoformat(epoch.processing_time)
            age += max(0.0, (later - at).total_seconds())
            ages[epoch.epoch], later = age, at
    return ages


def seconds_since(moment: str | None, now: datetime) -> float | None:
    """Compute the seconds from an ISO time to now; None where there is no time."""
    return None if not moment else (now - datetime.fromisoformat(moment)).total_seconds()


Severity = Literal["page", "ticket", "info"]
"""Page: wake someone. Ticket: in working hours. Info: only shown."""

SEVERITIES: tuple[Severity, ...] = ("page", "ticket", "info")
"""Most urgent first."""

Owner = Literal["platform", "pipeline", "producers"]
"""Team that is notified. Platform: broker and machines. Producers: senders of the records. Pipeline: its results."""

Rule = Callable[[WatchFacts], Iterator[str]]
"""Yields a sentence for each occurrence; the first one is shown. Raises `UnknownFactError` if it cannot decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSpec:
    """Condition that a person must learn about.

    Attributes:
        name: Of the alert, of its runbook in `docs/runbooks`, and of its drill.
        severity: How urgent it is.
        owner: Team that is notified.
        symptom: How a person sees it, in a few words, for the index of runbooks.
        rule: Decides whether it fires.
        limits: Settings (`alerts.*`) and attributes of the definition (`policy.*`, `lateness.*`) that the rule compares
            facts with.
        suppresses: Alerts of the same pipeline that are not sent while this one fires, because they follow from it.
        no_drill: Why no drill causes the alert, and what does instead; None: `cutover drill NAME` causes it.
    """

    name: str
    severity: Severity
    owner: Owner
    symptom: str
    rule: Rule
    limits: tuple[str, ...] = ()
    suppresses: tuple[str, ...] = ()
    no_drill: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Alert that fires now."""

    name: str  # page in docs/runbooks
    text: str  # one clause with the numbers
    severity: Severity


def reported_by(fact: Callable[[WatchFacts], object]) -> Rule:
    """Build the rule of an alert that fires only when a fact reports a problem under its name.

    `catalogue.evaluate` fires it; the rule only leaves the alert undecided while the fact is unknown.
    """

    def require_reports(facts: WatchFacts) -> Iterator[str]:
        require(fact(facts))
        return iter(())

    return require_reports
