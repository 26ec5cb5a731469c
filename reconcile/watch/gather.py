"""Facts, look after look, from tables, log, heartbeat and disks. A source that cannot be read leaves unknown facts."""

import math
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from croniter import croniter

from cutover.clock import Clock
from cutover.definition.model.pipeline import Pipeline
from cutover.driver_state import read_driver_state
from cutover.errors import LakeError, LogError
from cutover.lake.control import losses, versions
from cutover.lake.control.losses import Loss
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.epochs.next_epoch import expect_start
from cutover.lake.integrity import epoch_history, high_water, lost_records, same_log, table_weights
from cutover.lake.tables import delta
from cutover.log.topic_partitions import format_number, log_of, topics_of
from cutover.output.cells import visible
from cutover.reconcile.watch import lag, troubles
from cutover.reconcile.watch.audit_age import find_audit_age
from cutover.reconcile.watch.facts import (
    Freshness,
    Growth,
    Trouble,
    Unfit,
    UnknownFact,
    UnknownFactError,
    WatchFacts,
    known,
    measure_ages,
)
from cutover.reconcile.watch.freshness import find_batch_age, find_verdict_age, make_doubt
from cutover.reconcile.watch.growth import growth
from cutover.reconcile.watch.lag import LagSample
from cutover.reconcile.watch.observe import Observer, recent
from cutover.reconcile.watch.retention import replay_time, retention, shortest
from cutover.reconcile.watch.unfit import find_unfit_records
from cutover.recorded_times import RecordAge
from cutover.settings import Settings

Value = TypeVar("Value")
_MOST_MOMENTS = 100

KEPT = 100
"""Looks that are kept: alerts that need time are judged over them, beside what the driver says."""

EPOCHS, SECONDS = 10, 300.0
"""A disk must hold the growth of so many epochs, and of so much time."""

COUNTED = 100_000
"""Offsets of which the records are counted again in the log at a time, every `SECONDS`: a tenth of a second."""


@dataclass(slots=True)
class Gathering:
    """Gathers the facts of one pipeline again and again."""

    settings: Settings
    pipeline: Pipeline
    clock: Clock
    _samples: deque[LagSample] = field(default_factory=lambda: deque(maxlen=KEPT))
    _heard: float | None = None  # monotonic: when the log answered us last; before that, when it was asked first
    _looked_through: tuple[int, ...] = ()  # epochs whose records were looked through for what does not fit
    _unfit: tuple[Unfit, ...] = ()
    _troubles: list[Trouble] = field(default_factory=list)
    _lost: tuple[str, ...] = ()  # of the newest count of epochs in the log
    _counted_at: float | None = None  # monotonic
    _count_turn: int = 0  # selects the epochs that are counted next
    _growth_at: tuple[float, Growth] | None = None  # monotonic; reads a week of epochs, so it is kept for a while

    def facts(self) -> WatchFacts:
        """Look once more and return what is known."""
        at, self._troubles = self.clock.now(), []
        settings, pipeline = self.settings, self.pipeline
        driver = self._try_read(lambda: read_driver_state(settings, pipeline.name))
        records = self._try_read(self._records)
        facts = WatchFacts(
            pipeline=pipeline,
            limits=settings.alerts,
            at=at,
            driver=driver,
            trigger_seconds=settings.stream.trigger_seconds,
            records=records,
            free=self._try_read(lambda: free(settings)),
            grown=self._try_read(lambda: self._sum_new_bytes(known(records), at)),
            growth=self._try_read(lambda: self._growth(at)),
            batch=self._try_read(lambda: self._batch(known(records), at)),
            verdict=self._try_read(lambda: self._verdict(known(records), at)),
            audit=self._try_read(lambda: self._audit(known(records), at)),
            regression=self._try_read(lambda: troubles.regression(settings, pipeline)),
            pins=self._try_read(lambda: tuple(troubles.pins(settings, pipeline, now=at))),
            comparison=self._try_read(lambda: tuple(troubles.of_comparison(settings, pipeline))),
            checks=self._try_read(lambda: tuple(troubles.of_checks(settings, pipeline))),
            foreign=self._try_read(lambda: tuple(troubles.of_others(settings, pipeline))),
        )
        of_log = self._read_log(facts)
        return replace(facts, samples=tuple(self._samples), troubles=tuple(self._troubles), **of_log)

    def _try_read(self, read: Callable[[], Value]) -> Value | UnknownFact:
        """Return a fact; where its source cannot be read, that is a trouble and the fact is unknown."""
        try:
            return read()
        except UnknownFactError as error:  # it depends on another fact, whose source was named already
            return UnknownFact(reason=str(error))
        except LakeError as error:
            trouble = _make_trouble(error, "TableUnreadable")
            self._troubles.append(trouble)
            return UnknownFact(reason=trouble.text)

    def _records(self) -> Sequence[EpochRecord]:
        """Return the records of the newest epochs; what contradicts them goes to the troubles."""
        version = versions.current(self.settings, self.pipeline)
        if version is None:
            return ()
        table_weights.refuse_removed(self.settings, self.pipeline, version)
        if not delta.exists(version.uri):
            return ()
        # Before the table, since it only goes on. A witness that cannot be read makes no epoch unknown.
        seen = self._try_read(lambda: high_water.all_of(self.settings, self.pipeline, version))
        epochs = EpochLog(version.uri)
        found = recent(epochs)
        witnesses = () if isinstance(seen, UnknownFact) else seen
        doubts = epoch_history.find_inconsistencies(version, epochs.table, found[-1:], witnesses)
        self._troubles += [Trouble(runbook="EpochHistoryBroken", text=visible(text)) for text in doubts]
        return found

    def _epochs(self) -> EpochLog | None:
        version = versions.current(self.settings, self.pipeline)
        return EpochLog(version.uri) if version is not None and delta.exists(version.uri) else None

    def _read_log(self, facts: WatchFacts) -> dict[str, Any]:
        """Return the facts of the log: how long it has been silent, where it does not answer."""
        has_run = isinstance(facts.driver, UnknownFact) or facts.driver.at is not None
        if not isinstance(facts.records, UnknownFact) and not facts.records and not has_run:
            return {}
        asked = self.clock.monotonic()
        try:
            answer = self._find_answer(facts)
        except LogError as error:
            if error.runbook == "KafkaUnreachable":
                self._heard = asked if self._heard is None else self._heard
                return {"silent": self.clock.monotonic() - self._heard, **_make_unknown(str(error))}
            # It answers, and does not know the topic; before the first epoch perhaps nobody has made it yet.
            if (not isinstance(facts.records, UnknownFact) and facts.records) or error.runbook is not None:
                self._troubles.append(_make_trouble(error, "TopicIdentityChanged"))
            return {}
        self._heard = asked
        return answer

    def _find_answer(self, facts: WatchFacts) -> dict[str, Any]:
        """Return the facts of a log that answers; where no epoch can be read, nothing of it can be judged."""
        if isinstance(facts.records, UnknownFact):
            Observer(self.settings, self.pipeline, self.clock).log.earliest(log_of(self.pipeline))
            return _make_unknown(facts.records.reason)
        return self._answer(facts, facts.records) if facts.records else self._count_waiting()

    def _answer(self, facts: WatchFacts, records: Sequence[EpochRecord]) -> dict[str, Any]:
        observer, newest = Observer(self.settings, self.pipeline, self.clock), records[-1]
        sample = observer.sample_log(newest, None if isinstance(facts.driver, UnknownFact) else facts.driver)
        self._samples.append(sample)
        if sample.topic_id != newest.topic_id:
            return {}
        configs = [observer.log.config(topic) for topic in topics_of(newest.topic)]
        is_by_size = any(int(config.get("retention.bytes", "-1")) >= 0 for config in configs)
        accepted = self._try_read(self._losses)
        return {
            "changed": self._try_read(lambda: self._find_changes(observer, newest)),
            "compacted": tuple(_list_compacted(dict(zip(topics_of(newest.topic), configs, strict=True)))),
            "lost": self._try_read(lambda: self._count_again(observer)),
            "expected": self._try_read(lambda: expect_start(newest, known(accepted), newest.topic_id)),
            "retention": None if is_by_size else shortest(map(retention, configs)),
            "replay": replay_time(records, lag.count_unread(sample)),
            "unfit": self._try_read(lambda: self._list_unfit_records(observer, list(facts.recent()))),
        }

    def _find_changes(self, observer: Observer, newest: EpochRecord) -> tuple[str, ...]:
        """Return what the log holds otherwise than the epochs have read it."""
        version = versions.current(self.settings, self.pipeline)
        if version is None:
            return ()
        found = same_log.changes(observer.log, newest, same_log.recorded_history(version.uri))
        return tuple(f"partition {format_number(change.partition)}: {change.text}" for change in found)

    def _count_again(self, observer: Observer) -> tuple[str, ...]:
        """Return which epochs lost records, after counting a portion of them again in the log where that is due.

        While some did, these are counted at every look: an accepted loss ends the alert.
        """
        now = self.clock.monotonic()
        age = None if self._counted_at is None else now - self._counted_at
        if not self._lost and age is not None and age <= SECONDS:
            return ()
        version, epochs = versions.current(self.settings, self.pipeline), self._epochs()
        if version is None or epochs is None:
            return ()
        recorded, records = losses.up_to(self.settings, version), epochs.records()
        lost = lost_records.find_lost(
            observer.log, records, recorded, self.pipeline.window, turn=self._count_turn, most=COUNTED
        )
        self._lost, self._counted_at = tuple(visible(each.text) for each in lost), now
        self._count_turn += not lost
        return self._lost

    def _count_waiting(self) -> dict[str, Any]:
        """Return what waits in the log for a first epoch."""
        log, topic = Observer(self.settings, self.pipeline, self.clock).log, log_of(self.pipeline)
        first, end = log.earliest(topic), log.latest(topic, self.pipeline.source.isolation)
        return {"waiting": sum(max(0, offset - first.get(p, 0)) for p, offset in end.items())}

    def _losses(self) -> tuple[Loss, ...]:
        version = versions.current(self.settings, self.pipeline)
        return () if version is None else losses.losses(self.settings, version)

    def _list_unfit_records(self, observer: Observer, found: Sequence[EpochRecord]) -> tuple[Unfit, ...]:
        """Return the first records that do not fit; looked for only where the epochs in question are others."""
        strange = tuple(r.epoch for r in found if r.unknown or r.counts.get("malformed"))
        if strange[:1] != self._looked_through[:1] or not strange:
            epochs = self._epochs()
            looked = () if epochs is None else find_unfit_records(self.pipeline, epochs, observer.log, found)
            self._looked_through, self._unfit = strange, tuple(looked)
        return self._unfit

    def _sum_new_bytes(self, records: Sequence[EpochRecord], at: datetime) -> int:
        epochs = self._epochs()
        if epochs is None or not records or delta.local_root(epochs.table) is None:
            return 0
        late = [number for number, age in measure_ages(records, None, at).items() if age < SECONDS]
        since = min([records[-1].epoch + 1 - EPOCHS, *late])
        return sum(size for newest, size in _files(epochs) if newest >= since)

    def _growth(self, at: datetime) -> Growth | None:
        now = self.clock.monotonic()
        if self._growth_at is None or now - self._growth_at[0] > SECONDS:
            epochs = self._epochs()
            if epochs is None:
                return None
            self._growth_at = now, growth(epochs, at)
        return self._growth_at[1]

    def _batch(self, records: Sequence[EpochRecord], at: datetime) -> Freshness | None:
        """Return how fresh the batch path has to be; None where it does not run, or before the stream began."""
        found = find_batch_age(self.settings, self.pipeline, records, at)
        return self._make_freshness(found, self.settings.alerts.batch_schedules, at, "the newest batch run")

    def _verdict(self, records: Sequence[EpochRecord], at: datetime) -> Freshness | None:
        """Return how old the word on the present is; None in KAPPA, and before there was anything to compare."""
        found = find_verdict_age(self.settings, self.pipeline, records, at)
        return self._make_freshness(found, self.settings.alerts.reconcile_schedules, at, "the newest comparison")

    def _audit(self, records: Sequence[EpochRecord], at: datetime) -> Freshness | None:
        """Return how old the newest conclusive audit is; None where no one has to audit."""
        made = find_audit_age(self.settings, self.pipeline, records, self.clock)
        if made is not None and made.is_doubtful(at, self.settings.alerts.audit_schedules):
            self._troubles.append(make_doubt("the newest audit"))
        return made

    def _make_freshness(self, found: RecordAge | None, times: float, at: datetime, what: str) -> Freshness | None:
        """Return an age beside its schedule; one that no one can tell goes to the troubles."""
        if found is None:
            return None
        schedule = period(self.pipeline.schedule, found.since, times)
        made = Freshness(newest=found.since, schedule=schedule, doubt=found.doubt)
        if made.is_doubtful(at, times):
            self._troubles.append(make_doubt(what))
        return made


def free(settings: Settings) -> dict[str, int]:
    """Return the free bytes where the lake, Spark's temporary files, the run-time files and the reports lie.

    Raises:
        LakeError: One of the places cannot be asked.
    """
    places = {
        "lake": settings.lake_uri,
        "home": str(settings.home.resolve()),
        "temporary files of Spark": str(settings.home.resolve() / "tmp" / "spark"),
        "run-time files": str(settings.run_dir),
        "reports": str(settings.reports_dir),
    }
    try:
        there = {name: place for name, place in places.items() if "://" not in place and Path(place).is_dir()}
        return {name: shutil.disk_usage(place).free for name, place in there.items()}
    except OSError as error:
        msg = f"Free space: expected folders that can be asked, got: {error}."
        raise LakeError(msg, runbook="DiskHeadroomLow") from error


def period(schedule: str, newest: datetime, times: float) -> timedelta:
    """Return the mean time between moments of a cron schedule, over as many as may pass without a new result.

    So a night or a weekend in which none lies is not taken for a result that is missing.

    Args:
        schedule: Of the definition.
        newest: When the newest result was made.
        times: Moments that may pass; of more than a hundred the mean of the first hundred.
    """
    count = min(max(1, math.ceil(times)), _MOST_MOMENTS)
    before: datetime = croniter(schedule, newest + timedelta(seconds=1)).get_prev(datetime)
    moments: Iterator[datetime] = croniter(schedule, newest).all_next(datetime)
    *_, last = islice(moments, count)
    return (last - before) / count


def _files(epochs: EpochLog) -> Iterable[tuple[int, int]]:
    """Yield the newest epoch and the size of each file of an epoch log."""
    for action in delta.actions(epochs.table):
        newest = action.get("max._epoch")
        yield -1 if newest is None else int(newest), int(action["size_bytes"])


def _list_compacted(configs: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield the topics whose clean-up policy removes records inside the log."""
    for topic, config in configs.items():
        policy = config.get("cleanup.policy", "delete")
        if "compact" in policy:
            yield f"topic {topic}: cleanup.policy is {policy}, records inside the log are removed"


def _make_unknown(reason: str) -> dict[str, Any]:
    """Return the facts that only a log beside its newest epoch gives, as unknown."""
    unknown = UnknownFact(reason=reason)
    of_log = ("waiting", "changed", "compacted", "lost", "expected", "retention", "unfit")
    return dict.fromkeys(of_log, unknown)


def _make_trouble(error: LakeError | LogError, otherwise: str) -> Trouble:
    return Trouble(runbook=error.runbook or otherwise, text=visible(str(error).splitlines()[0]))
