"""Spark's own account of its triggers, the same for every query that is compared."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

PATIENCE_SECONDS = 280.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """One trigger that read something."""

    query: str
    began: float  # Unix seconds
    seconds: float
    after: float  # seconds of it that came after the function that takes the micro-batch
    rows: int

    @property
    def ended(self) -> float:
        """Return when the micro-batch was done with; Spark's own note of that, which comes after, left out."""
        return self.began + self.seconds - self.after


class Triggers(StreamingQueryListener):
    """Keeps every trigger that read something."""

    def __init__(self) -> None:
        self._seen: list[Trigger] = []

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 -- Spark's name
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 -- Spark's name
        """Keep a trigger."""
        progress = event.progress
        if progress.numInputRows:
            self._seen.append(
                Trigger(
                    query=str(progress.name),
                    began=datetime.fromisoformat(progress.timestamp).timestamp(),
                    seconds=progress.durationMs["triggerExecution"] / 1_000,
                    after=progress.durationMs.get("commitOffsets", 0) / 1_000,
                    rows=progress.numInputRows,
                )
            )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 -- Spark's name
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 -- Spark's name
        """Do nothing."""

    def of(self, query: str) -> list[Trigger]:
        """Return the triggers of all queries whose name begins so, in order."""
        return sorted((t for t in self._seen if t.query.startswith(query)), key=lambda t: t.began)


def listening(spark: SparkSession) -> Triggers:
    """Return a listener that hears of every query of a session."""
    triggers = Triggers()
    spark.streams.addListener(triggers)
    return triggers


def drained(query: StreamingQuery, triggers: Triggers, rows: int) -> list[Trigger]:
    """Wait until a query has read so many rows, stop it, and return its triggers."""
    name = query.name
    try:
        until(lambda: query.exception() is not None or sum(t.rows for t in triggers.of(name)) >= rows)
        # Let a micro-batch without data end too: one that is interrupted fills the log with Spark's own stack.
        until(lambda: not (query.isActive and query.status["isTriggerActive"]))
    finally:
        query.stop()
    error = query.exception()
    if error is not None:
        raise error
    return triggers.of(name)


def until(look: Callable[[], bool], *, within: float = PATIENCE_SECONDS, every: float = 0.02) -> None:
    """Wait for a fact.

    Raises:
        AssertionError: It did not come about.
    """
    deadline = time.monotonic() + within
    while not look():
        if time.monotonic() > deadline:
            msg = f"Benchmark: expected a fact within {within:g} s that did not come about."
            raise AssertionError(msg)
        time.sleep(every)
