"""Facts about a pipeline from tables, log, heartbeat and disks, collected repeatedly.

Of the log: the ends of its partitions after the newest epoch, its retention, and the time to read it again; it is only
read, without a consumer group. A source that cannot be read is reported as a problem, and the facts that depend on it
become unknown.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from cutover.clock import Clock
from cutover.definition.model.pipeline import Pipeline
from cutover.driver_state import DriverState, read_driver_state
from cutover.engine.schema_store import bind_schemas
from cutover.errors import LakeError, LogError
from cutover.lake.control import losses, versions
from cutover.lake.epochs.delivery import expect_start
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.integrity import high_water, lost_records, same_log, table_weights
from cutover.lake.journal_rows import Loss
from cutover.lake.tables import delta
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import format_partition, name_log, split_topics
from cutover.output.cells import visible
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.watch import ages, findings
from cutover.reconcile.watch.facts import (
    Freshness,
    LagSample,
    Problem,
    RowGrowth,
    SchemaMismatch,
    UnknownFact,
    UnknownFactError,
    Value,
    WatchFacts,
    require,
)
from cutover.reconcile.watch.findings import find_schema_mismatches
from cutover.recorded_times import RecordAge, find_latest_times

RECENT_EPOCHS = 1_500
"""Epochs that are read: ten minutes at two per second, and some more."""

_LONGEST_RETENTION_MILLIS = timedelta.max // timedelta(milliseconds=1)
"""Longer ones mean no limit: topics that keep records forever are often given the largest number there is."""


class LogObserver:
    """Samples the log and the newest epoch of one pipeline.

    Raises:
        LakeError: The pipeline has no epoch yet, or its table cannot be read.
        LogError: The log does not answer.
    """

    def __init__(self, lake: PipelineLake, clock: Clock) -> None:
        self._lake, self._clock = lake, clock
        self.log = LogClient(lake.settings)

    def sample(self) -> tuple[LagSample, list[EpochRecord]]:
        """Return a sample of this moment, and the newest epochs, oldest first."""
        epochs = self.read_epochs()
        return self.sample_log(epochs[-1], read_driver_state(self._lake.settings, self._lake.pipeline.name)), epochs

    def sample_log(self, newest: EpochRecord, driver: DriverState | None) -> LagSample:
        """Return a sample of the log after an epoch.

        Args:
            newest: Newest epoch.
            driver: Latest state that the driver reported; None: its heartbeat cannot be read.
        """
        topic = name_log(self._lake.pipeline)
        ends = self.log.latest(topic, self._lake.pipeline.source.isolation)
        first_unread = {p: [newest.end.get(p, 0)] for p, end in ends.items() if end > newest.end.get(p, 0)}
        return LagSample(
            at=self._clock.now(),
            monotonic=self._clock.monotonic(),
            epoch=newest,
            end_offsets=ends,
            high_watermarks=self.log.high_watermarks(topic),
            start_offsets=self.log.earliest(topic),
            topic_id=self.log.topic_id(topic),
            driver=driver,
            first_unread_times={r.partition: r.log_time_micros for r in self.log.read(topic, first_unread)},
            newest_times=self.log.newest_times(topic),
        )

    def read_epochs(self) -> list[EpochRecord]:
        """Read the newest epochs, oldest first."""
        version = versions.find_current_version(self._lake)
        epoch_log = EpochLog(version.uri) if version is not None and delta.exists(version.uri) else None
        epochs = [] if epoch_log is None else epoch_log.recent(RECENT_EPOCHS)
        if not epochs:
            raise make_no_epoch_error(self._lake.pipeline)
        return epochs


def make_no_epoch_error(pipeline: Pipeline) -> LakeError:
    """Build the error of a pipeline that has nothing to watch yet."""
    msg = f"Stream of {pipeline.name}: expected at least one committed epoch under this definition, got none."
    return LakeError(msg + f"\nHint: `{pipeline.driver_command}` starts it.", runbook="StreamNotRunning")


def parse_retention(config: Mapping[str, str]) -> timedelta | None:
    """Parse how long a topic keeps every record, as far as its age matters: None without a limit, zero if compacted."""
    if "compact" in config.get("cleanup.policy", "delete"):
        return timedelta(0)
    millis = int(config.get("retention.ms", "-1"))
    return None if millis < 0 or millis > _LONGEST_RETENTION_MILLIS else timedelta(milliseconds=millis)


def find_shortest(retentions: Iterable[timedelta | None]) -> timedelta | None:
    """Return the shortest of several retentions; None: none has a limit."""
    return min((time for time in retentions if time is not None), default=None)


def is_limited_by_size(config: Mapping[str, str]) -> bool:
    """Return whether a topic deletes records once a partition is too large, whatever their age."""
    return int(config.get("retention.bytes", "-1")) >= 0


def find_retained_since(
    epochs: Sequence[EpochRecord], start_offsets: Mapping[int, int], now: datetime
) -> datetime | None:
    """Find the time from which a log has kept all its records: at the latest when the stream read the oldest of them.

    For a log of limited size this is the retention that its limit has amounted to so far.

    Args:
        epochs: All epochs, in order.
        start_offsets: Partition -> first offset that the log still has.
        now: By the clock of this host. Where clocks disagree, the latest time at which an epoch can have read counts.

    Returns:
        None where no epoch has read any of it.
    """
    dated = [epoch for epoch in epochs if epoch.processing_time]
    latest = find_latest_times([datetime.fromisoformat(epoch.processing_time) for epoch in dated], now)
    times = []
    for partition, start in start_offsets.items():
        times += next(([at] for e, at in zip(dated, latest, strict=True) if e.end.get(partition, 0) > start), [])
    return max(times, default=None)


def estimate_replay_time(epochs: Sequence[EpochRecord], records: int) -> timedelta | None:
    """Estimate how long reading a number of records takes, at the pace of the epochs so far; None before the first."""
    records_read = sum(epoch.records for epoch in epochs)
    seconds = sum(epoch.seconds for epoch in epochs if epoch.records)
    return None if records_read == 0 or seconds == 0 else timedelta(seconds=seconds / records_read * records)


MAX_SAMPLES = 100
"""Samples that are kept: alerts that need time are timed by them, in addition to what the driver reports."""

REFRESH_SECONDS = 300.0
"""Time after which expensive facts are read again: the growth of the epoch log, the count of records in the log."""

OFFSETS_PER_COUNT = 100_000
"""Offsets whose records are counted again in the log at a time: a tenth of a second."""


@dataclass(slots=True)
class FactCollector:
    """Collector of the facts of one pipeline; it keeps samples and expensive facts between calls."""

    lake: PipelineLake
    clock: Clock
    _samples: deque[LagSample] = field(default_factory=lambda: deque(maxlen=MAX_SAMPLES))
    _answered_at: float | None = None  # monotonic: latest answer of the log; before that, the first request
    _searched_epochs: tuple[int, ...] = ()  # epochs that were searched for schema mismatches
    _schema_mismatches: tuple[SchemaMismatch, ...] = ()
    _problems: list[Problem] = field(default_factory=list)
    _lossy_epochs: tuple[str, ...] = ()  # by the latest count
    _counted_at: float | None = None  # monotonic
    _count_turn: int = 0  # selects the epochs that are counted next
    _row_growth_at: tuple[float, RowGrowth] | None = None  # monotonic

    def collect(self) -> WatchFacts:
        """Collect the facts of this moment."""
        at, self._problems = self.clock.now(), []
        lake, settings, pipeline = self.lake, self.lake.settings, self.lake.pipeline
        driver = self._try_read(lambda: read_driver_state(settings, pipeline.name))
        epochs = self._try_read(self._read_epochs)
        facts = WatchFacts(
            pipeline=pipeline,
            limits=settings.alerts,
            at=at,
            driver=driver,
            trigger_seconds=settings.stream.trigger_seconds,
            epochs=epochs,
            free_bytes=self._try_read(lambda: findings.measure_free_bytes(settings)),
            recent_growth_bytes=self._try_read(lambda: self._sum_recent_bytes(require(epochs), at)),
            row_growth=self._try_read(lambda: self._measure_row_growth(at)),
            batch_freshness=self._try_read(lambda: self._read_batch_freshness(require(epochs), at)),
            verdict_freshness=self._try_read(lambda: self._read_verdict_freshness(require(epochs), at)),
            audit_freshness=self._try_read(lambda: self._read_audit_freshness(require(epochs), at)),
            regression=self._try_read(lambda: findings.find_regression(lake)),
            pins=self._try_read(lambda: tuple(findings.list_pins(lake, now=at))),
            comparison_problems=self._try_read(lambda: tuple(findings.list_comparison_problems(lake))),
            violated_checks=self._try_read(lambda: tuple(findings.list_violated_checks(lake))),
            foreign_writes=self._try_read(lambda: tuple(findings.list_foreign_writes(lake))),
        )
        log_facts = self._read_log(facts)
        return replace(facts, samples=tuple(self._samples), problems=tuple(self._problems), **log_facts)

    def _try_read(self, read: Callable[[], Value]) -> Value | UnknownFact:
        """Read a fact; if its source cannot be read, record a problem and return an unknown fact."""
        try:
            return read()
        except UnknownFactError as error:  # it depends on another fact, whose source has its problem already
            return UnknownFact(reason=str(error))
        except LakeError as error:
            problem = _make_problem(error, "TableUnreadable")
            self._problems.append(problem)
            return UnknownFact(reason=problem.text)

    def _read_epochs(self) -> Sequence[EpochRecord]:
        """Read the newest epochs, and record contradictions between them and other tables as problems."""
        version = versions.find_current_version(self.lake)
        if version is None:
            return ()
        table_weights.check_not_removed(self.lake, version)
        if not delta.exists(version.uri):
            return ()
        # Before the epoch log, which only grows. An unreadable witness does not make the epochs unknown.
        note = self._try_read(lambda: high_water.read_note(version))
        recorded_epochs = self._try_read(lambda: high_water.list_recorded_witnesses(self.lake, version))
        epoch_log = EpochLog(version.uri)
        epochs = epoch_log.recent(RECENT_EPOCHS)
        witnesses = () if isinstance(recorded_epochs, UnknownFact) else recorded_epochs
        witnesses += () if note is None or isinstance(note, UnknownFact) else (note,)
        texts = high_water.find_inconsistencies(version, epoch_log.table, epochs[-1:], witnesses)
        self._problems += [Problem(runbook="EpochHistoryBroken", text=visible(text)) for text in texts]
        return epochs

    def _open_epoch_log(self) -> EpochLog | None:
        version = versions.find_current_version(self.lake)
        return EpochLog(version.uri) if version is not None and delta.exists(version.uri) else None

    def _read_log(self, facts: WatchFacts) -> dict[str, Any]:
        """Read the facts of the log; if it does not answer, for how long."""
        has_run = isinstance(facts.driver, UnknownFact) or facts.driver.at is not None
        has_epochs = not isinstance(facts.epochs, UnknownFact) and bool(facts.epochs)
        if not isinstance(facts.epochs, UnknownFact) and not has_epochs and not has_run:
            return {}
        requested_at = self.clock.monotonic()
        try:
            log_facts = self._request_log_facts(facts)
        except LogError as error:
            if error.runbook == "KafkaUnreachable":
                self._answered_at = requested_at if self._answered_at is None else self._answered_at
                silent_seconds = self.clock.monotonic() - self._answered_at
                return {"silent_seconds": silent_seconds, **_make_unknown_log_facts(str(error))}
            # It answers without this topic, which may not have been created yet before the first epoch.
            if has_epochs or error.runbook is not None:
                self._problems.append(_make_problem(error, "TopicIdentityChanged"))
            return {}
        self._answered_at = requested_at
        return log_facts

    def _request_log_facts(self, facts: WatchFacts) -> dict[str, Any]:
        """Request the facts of the log; if the epochs are unknown, only check that it answers."""
        if isinstance(facts.epochs, UnknownFact):
            LogObserver(self.lake, self.clock).log.earliest(name_log(self.lake.pipeline))
            return _make_unknown_log_facts(facts.epochs.reason)
        return self._sample_log(facts, facts.epochs) if facts.epochs else self._count_before_first_epoch()

    def _sample_log(self, facts: WatchFacts, epochs: Sequence[EpochRecord]) -> dict[str, Any]:
        observer, newest = LogObserver(self.lake, self.clock), epochs[-1]
        sample = observer.sample_log(newest, None if isinstance(facts.driver, UnknownFact) else facts.driver)
        self._samples.append(sample)
        if sample.topic_id != newest.topic_id:
            return {}
        topics = split_topics(newest.topic)
        configs = [observer.log.config(topic) for topic in topics]
        has_size_limit = any(is_limited_by_size(config) for config in configs)
        accepted = self._try_read(self._read_losses)
        return {
            "rewritten_partitions": self._try_read(lambda: self._find_rewritten_partitions(observer, newest)),
            "compacted_topics": tuple(_list_compacted(dict(zip(topics, configs, strict=True)))),
            "lossy_epochs": self._try_read(lambda: self._find_lossy_epochs(observer)),
            "next_offsets": self._try_read(lambda: expect_start(newest, require(accepted), newest.topic_id)),
            "retention": (None if has_size_limit else find_shortest(map(parse_retention, configs))),
            "replay_time": estimate_replay_time(epochs, sample.unread),
            "schema_mismatches": self._try_read(
                lambda: self._find_schema_mismatches(observer, list(facts.list_recent_epochs()))
            ),
        }

    def _find_rewritten_partitions(self, observer: LogObserver, newest: EpochRecord) -> tuple[str, ...]:
        """Describe the partitions that hold other records than the epochs have read."""
        version = versions.find_current_version(self.lake)
        if version is None:
            return ()
        changes = same_log.find_rewritten_partitions(observer.log, newest, same_log.recorded_history(version.uri))
        return tuple(f"{format_partition(change.topic, change.partition)}: {change.text}" for change in changes)

    def _find_lossy_epochs(self, observer: LogObserver) -> tuple[str, ...]:
        """Describe the epochs that lost records, after counting some of them again in the log where that is due.

        Epochs that lost records are counted each time, so that accepting the loss clears the alert.
        """
        now = self.clock.monotonic()
        age = None if self._counted_at is None else now - self._counted_at
        if not self._lossy_epochs and age is not None and age <= REFRESH_SECONDS:
            return ()
        version, epoch_log = versions.find_current_version(self.lake), self._open_epoch_log()
        if version is None or epoch_log is None:
            return ()
        accepted, epochs = losses.list_up_to(self.lake.settings, version), epoch_log.records()
        lossy = lost_records.find_lost(
            observer.log,
            epochs,
            accepted,
            self.lake.pipeline.window,
            turn=self._count_turn,
            max_offsets=OFFSETS_PER_COUNT,
        )
        self._lossy_epochs, self._counted_at = tuple(visible(loss.text) for loss in lossy), now
        self._count_turn += not lossy
        return self._lossy_epochs

    def _count_before_first_epoch(self) -> dict[str, Any]:
        """Count the offsets that wait in the log for a first epoch."""
        log, topic = LogObserver(self.lake, self.clock).log, name_log(self.lake.pipeline)
        starts, ends = log.earliest(topic), log.latest(topic, self.lake.pipeline.source.isolation)
        return {"unread_before_first_epoch": sum(max(0, end - starts.get(p, 0)) for p, end in ends.items())}

    def _read_losses(self) -> tuple[Loss, ...]:
        version = versions.find_current_version(self.lake)
        return () if version is None else losses.list_of_version(self.lake.settings, version)

    def _find_schema_mismatches(
        self, observer: LogObserver, epochs: Sequence[EpochRecord]
    ) -> tuple[SchemaMismatch, ...]:
        """Find the first records that do not match the schema; search again only if other epochs are suspect."""
        suspects = tuple(e.epoch for e in epochs if e.unknown or e.counts.get("malformed"))
        if suspects[:1] != self._searched_epochs[:1] or not suspects:
            epoch_log = self._open_epoch_log()
            bind_schemas(self.lake.settings)
            mismatches = (
                () if epoch_log is None else find_schema_mismatches(self.lake.pipeline, epoch_log, observer.log, epochs)
            )
            self._searched_epochs, self._schema_mismatches = suspects, tuple(mismatches)
        return self._schema_mismatches

    def _sum_recent_bytes(self, epochs: Sequence[EpochRecord], at: datetime) -> int:
        epoch_log = self._open_epoch_log()
        return 0 if epoch_log is None else findings.sum_recent_bytes(epoch_log, epochs, at)

    def _measure_row_growth(self, at: datetime) -> RowGrowth | None:
        now = self.clock.monotonic()
        if self._row_growth_at is None or now - self._row_growth_at[0] > REFRESH_SECONDS:
            epoch_log = self._open_epoch_log()
            if epoch_log is None:
                return None
            self._row_growth_at = now, findings.measure_row_growth(epoch_log, at)
        return self._row_growth_at[1]

    def _read_batch_freshness(self, epochs: Sequence[EpochRecord], at: datetime) -> Freshness | None:
        """Read how fresh the batch path is; None where it does not run, or before the stream began."""
        age = ages.find_batch_age(self.lake, epochs, at)
        return self._make_freshness(age, self.lake.settings.alerts.batch_schedules, at, "the newest batch run")

    def _read_verdict_freshness(self, epochs: Sequence[EpochRecord], at: datetime) -> Freshness | None:
        """Read how fresh the current comparison is; None in KAPPA, and before there was anything to compare."""
        age = ages.find_verdict_age(self.lake, epochs, at)
        return self._make_freshness(age, self.lake.settings.alerts.reconcile_schedules, at, "the newest comparison")

    def _read_audit_freshness(self, epochs: Sequence[EpochRecord], at: datetime) -> Freshness | None:
        """Read how fresh the latest conclusive audit is; None where no audit is required."""
        freshness = ages.find_audit_age(self.lake, epochs, self.clock)
        if freshness is not None and freshness.is_undecidable(at, self.lake.settings.alerts.audit_schedules):
            self._problems.append(ages.make_age_problem("the newest audit"))
        return freshness

    def _make_freshness(self, age: RecordAge | None, schedules: float, at: datetime, subject: str) -> Freshness | None:
        """Build a freshness from an age and the schedule; record a problem if the clocks do not show the age."""
        if age is None:
            return None
        schedule = ages.compute_period(self.lake.pipeline.schedule, age.not_before, schedules)
        freshness = Freshness(latest=age.not_before, schedule=schedule, uncertainty=age.uncertainty)
        if freshness.is_undecidable(at, schedules):
            self._problems.append(ages.make_age_problem(subject))
        return freshness


def _list_compacted(configs: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield the topics whose clean-up policy deletes records inside the log."""
    for topic, config in configs.items():
        policy = config.get("cleanup.policy", "delete")
        if "compact" in policy:
            yield f"topic {topic}: cleanup.policy is {policy}, records inside the log are removed"


def _make_unknown_log_facts(reason: str) -> dict[str, Any]:
    """Return the facts that need both the log and its newest epoch, as unknown."""
    names = (
        "unread_before_first_epoch",
        "rewritten_partitions",
        "compacted_topics",
        "lossy_epochs",
        "next_offsets",
        "retention",
        "schema_mismatches",
    )
    return dict.fromkeys(names, UnknownFact(reason=reason))


def _make_problem(error: LakeError | LogError, default_runbook: str) -> Problem:
    return Problem(runbook=error.runbook or default_runbook, text=visible(str(error).splitlines()[0]))
