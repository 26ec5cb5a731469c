"""The class of a record in a window: the first that fits, in this order, on both paths (batch has no `late`)."""

from enum import StrEnum


class Class(StrEnum):
    """What became of a (record, window) pair; a record without a window (malformed, filtered) is one pair."""

    MALFORMED = "malformed"
    FILTERED = "filtered"
    FUTURE = "future"
    LATE = "late"
    ACCEPTED = "accepted"


WITH_POSITIONS = (Class.MALFORMED, Class.FUTURE, Class.LATE)
"""Classes whose records are kept one by one: partition, offset, event time and reason."""
