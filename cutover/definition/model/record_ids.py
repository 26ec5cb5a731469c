"""Record ids: which rows are duplicates of one another, and how long the stream remembers an id. Pure.

Two records are twins if they have the same id and the same event time; the same id with another event time is another
record. The stream remembers ids by event minute and forgets whole minutes as the watermark passes, so that what it
holds is bounded. A record of a forgotten minute is late: nobody can say any more whether its twin was counted.

Source:
    Akidau et al., MillWheel, VLDB 2013, section 5.1.2 (exactly-once by record ids, garbage collected by low watermark).
"""

from typing import TYPE_CHECKING, TypeVar

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.topic import Topic
from cutover.durations import MICROSECONDS, parse_duration
from cutover.errors import DefinitionError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Micros = TypeVar("Micros", int, "NDArray[np.int64]")

MINUTE = MICROSECONDS["minute"]


def find_declared_horizon(topic: Topic) -> int | None:
    """Return the horizon that a definition names, in microseconds; None: it leaves it to the window."""
    return None if topic.id_horizon is None else parse_duration(topic.id_horizon, of="source.id_horizon")


def horizon(pipeline: Pipeline) -> int:
    """Return how far behind the watermark ids are remembered, microseconds.

    By default as long as a record of that event time could still be accepted.

    Raises:
        DefinitionError: The window has no end that this could follow, and the definition names no horizon.
    """
    declared = find_declared_horizon(pipeline.source)
    if declared is not None:
        return declared
    if pipeline.window.reach is None:
        msg = "source.id_horizon: expected a duration, since a window of all time never closes, got none."
        raise DefinitionError(msg + '\nHint: id_horizon="1 day" remembers ids for a day behind the watermark.')
    return pipeline.window.reach + pipeline.lateness.allowed_micros


def oldest_remembered(pipeline: Pipeline, watermark: int | None) -> int | None:
    """Return the first event time whose ids are remembered at a watermark, a whole minute, microseconds.

    None: the definition has no ids, or nothing is forgotten yet. Whatever is older counts as late.
    """
    if pipeline.source.record_id is None or watermark is None:
        return None
    return minute_of(watermark - horizon(pipeline))


def minute_of(micros: Micros) -> Micros:
    """Return the start of the minute that holds a time, microseconds; of each of many times."""
    return micros - micros % MINUTE
