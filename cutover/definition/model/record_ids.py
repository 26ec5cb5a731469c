"""Record ids: which rows are duplicates of one another, and how long the stream remembers an id. Pure.

Two records are duplicates if they have the same id and the same event time; the same id at another event time is
another record. The stream remembers ids by event minute and forgets whole minutes as the watermark passes, so that its
state is bounded. A record of a forgotten minute is late: it is unknown whether a duplicate of it was already counted.
Of a followed job, the same holds for Spark's `dropDuplicates`, which forgets single event times.

Source:
    Akidau et al., MillWheel, VLDB 2013, section 5.1.2 (exactly-once by record ids, garbage collected by low watermark).
"""

from typing import TYPE_CHECKING, TypeVar

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.topic import Topic
from cutover.errors import DefinitionError
from cutover.timestamps import MICROSECONDS, parse_duration

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Micros = TypeVar("Micros", int, "NDArray[np.int64]")

MINUTE = MICROSECONDS["minute"]


def find_declared_horizon(topic: Topic) -> int | None:
    """Return the horizon that the definition declares, in microseconds; None if it follows from the window."""
    return None if topic.id_horizon is None else parse_duration(topic.id_horizon, of="source.id_horizon")


def compute_id_horizon(pipeline: Pipeline) -> int:
    """Return how far behind the watermark ids are remembered, in microseconds.

    The default is as long as a record of that event time could still be accepted.

    Raises:
        DefinitionError: The window never ends, so there is no default, and the definition declares no horizon.
    """
    declared = find_declared_horizon(pipeline.source)
    if declared is not None:
        return declared
    if pipeline.window.reach is None:
        msg = "source.id_horizon: expected a duration, since a window of all time never closes, got none."
        raise DefinitionError(msg + '\nHint: id_horizon="1 day" remembers ids for a day behind the watermark.')
    return pipeline.window.reach + pipeline.lateness.allowed_micros


def compute_oldest_remembered(pipeline: Pipeline, watermark: int | None) -> int | None:
    """Return the first event time whose ids are remembered at a watermark, in microseconds: a whole minute.

    None if the definition has no ids, or if nothing has been forgotten yet. Any earlier record is late. A followed job
    forgets ids, and drops records, up to its watermark itself, even if their window is open; one that joins two topics
    forgets rows in this way.
    """
    if watermark is None:
        return None
    if pipeline.stream is not None and (pipeline.join is not None or pipeline.source.record_id is not None):
        return watermark + 1
    if pipeline.source.record_id is None:
        return None
    return truncate_to_minute(watermark - compute_id_horizon(pipeline))


def truncate_to_minute(micros: Micros) -> Micros:
    """Return the start of the minute that contains a time, in microseconds; elementwise for an array."""
    return micros - micros % MINUTE
