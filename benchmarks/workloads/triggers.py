"""Triggers of all compared queries, as Spark reports them."""

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

TIMEOUT_SECONDS = 280.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """Trigger that has read at least one record."""

    query: str
    began: float  # Unix seconds
    seconds: float
    upkeep: float  # seconds of it after the function that processes the micro-batch
    rows: int

    @property
    def ended(self) -> float:
        """End of the micro-batch (Unix seconds), without Spark's commit of the offsets, which follows."""
        return self.began + self.seconds - self.upkeep


class Triggers(StreamingQueryListener):
    """Listener that records every trigger that has read at least one record."""

    def __init__(self) -> None:
        self._triggers: list[Trigger] = []

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 -- Spark's name
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 -- Spark's name
        """Record a trigger."""
        progress = event.progress
        if progress.numInputRows:
            self._triggers.append(
                Trigger(
                    query=str(progress.name),
                    began=datetime.fromisoformat(progress.timestamp).timestamp(),
                    seconds=progress.durationMs["triggerExecution"] / 1_000,
                    upkeep=progress.durationMs.get("commitOffsets", 0) / 1_000,
                    rows=progress.numInputRows,
                )
            )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 -- Spark's name
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 -- Spark's name
        """Do nothing."""

    def list_for(self, query: str) -> list[Trigger]:
        """List the triggers of all queries with this prefix of their name, in order."""
        return sorted((t for t in self._triggers if t.query.startswith(query)), key=lambda t: t.began)


def listen(spark: SparkSession) -> Triggers:
    """Register a listener for all queries of a session."""
    triggers = Triggers()
    spark.streams.addListener(triggers)
    return triggers


def drain_query(query: StreamingQuery, triggers: Triggers, rows: int) -> list[Trigger]:
    """Wait until a query has read `rows` records, stop it, and return its triggers."""
    name = query.name
    try:
        wait_until(lambda: query.exception() is not None or sum(t.rows for t in triggers.list_for(name)) >= rows)
        # Wait for the end of an empty micro-batch too: Spark logs a stack trace if it is interrupted.
        wait_until(lambda: not (query.isActive and query.status["isTriggerActive"]))
    finally:
        query.stop()
    error = query.exception()
    if error is not None:
        raise error
    return triggers.list_for(name)


def wait_until(condition: Callable[[], bool], *, timeout: float = TIMEOUT_SECONDS, interval: float = 0.02) -> None:
    """Wait until a condition holds.

    Raises:
        AssertionError: It does not hold in time.
    """
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            msg = f"Benchmark: a condition did not hold within {timeout:g} s."
            raise AssertionError(msg)
        time.sleep(interval)
