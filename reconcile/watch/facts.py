"""What is known of a pipeline at one moment, gathered once: the ground of every alert."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cutover.definition.model.pipeline import Pipeline
from cutover.driver_state import DriverState
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.watch.lag import LagSample
from cutover.settings import AlertSettings


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
    """All that alerts are judged by; what could not be had is empty or None."""

    pipeline: Pipeline
    limits: AlertSettings
    at: datetime
    driver: DriverState = field(default_factory=DriverState)
    trigger_seconds: float = 0.5
    records: Sequence[EpochRecord] = ()  # newest epochs, oldest first
    samples: Sequence[LagSample] = ()  # looks at which log and table answered, in order of time
    waiting: int = 0  # offsets in the log, where no epoch was committed yet
    silent: float | None = None  # seconds that the log has not answered us; None: it does
    expected: Mapping[int, int] = field(default_factory=dict)  # partition -> next offset, behind recorded losses
    changed: tuple[str, ...] = ()  # partitions that hold other records than those that were read: what was expected
    retention: timedelta | None = None  # how long the topic keeps a record by its settings; None: for ever, not known
    replay: timedelta | None = None  # how long what is unread takes to read
    unfit: Sequence[Unfit] = ()
    free: Mapping[str, int] = field(default_factory=dict)  # place -> free bytes
    grown: int = 0  # bytes of ten epochs or of five minutes, whichever is more
    growth: Growth | None = None  # of the epoch log
    troubles: Sequence[Trouble] = ()
    batch: Freshness | None = None  # the newest batch run; before the first, the version of the stream; none in KAPPA
    verdict: Freshness | None = None  # the comparison that speaks now; before the first, the first batch run
    audit: Freshness | None = None  # the newest audit that says something; before it, the move; None: nobody has to
    pins: Sequence[Pin] = ()
    regression: Regression | None = None  # that an audit found and nothing has refuted since

    @property
    def newest(self) -> EpochRecord | None:
        """None before the first epoch."""
        return self.records[-1] if self.records else None

    @property
    def sample(self) -> LagSample | None:
        """Return the newest look at the log, unless it does not answer now."""
        return self.samples[-1] if self.samples and self.silent is None else None

    @property
    def quiet_seconds(self) -> float | None:
        """Return the time since the newest epoch that read something: time alone commits epochs, too; None: unknown."""
        came = next((record for record in reversed(self.records) if not record.tick), None)
        return None if came is None else seconds_since(came.processing_time, self.at)

    def recent(self) -> Iterator[EpochRecord]:
        """Yield the epochs of the time over which shares are taken."""
        for record in self.records:
            age = seconds_since(record.processing_time, self.at)
            if age is not None and age <= self.limits.rate_seconds:
                yield record


def seconds_since(moment: str | None, now: datetime) -> float | None:
    """Return the seconds from an ISO time to now; None where there is no time."""
    return None if not moment else (now - datetime.fromisoformat(moment)).total_seconds()
