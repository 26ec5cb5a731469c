"""Sentences on a log that was replayed: how much faster it was read than it came about, and what that leaves open."""


def describe_pace_of_reading(speed: float | None) -> str:
    """Return how many times faster a replayed log was read than it came about, or that this is unknown.

    Args:
        speed: Log time that went by for each second; None: unknown, or log timestamps are those of a load.
    """
    if speed is None:
        return "faster than it came about (how much is unknown: its log timestamps do not tell)"
    return f"about {round(speed):,} times faster than it came about"


def describe_replay(pipeline: str, speed: float | None) -> str:
    """Return that a log was replayed, and how to learn what would be late at real speed, where that can be known.

    Args:
        pipeline: Its name.
        speed: As of `describe_pace_of_reading`.
    """
    read = f"The log was read {describe_pace_of_reading(speed)}"
    if speed is None:
        return f"{read}, so how many records would be late at real speed is unknown too."
    return f"{read}: `cutover lateness {pipeline}` measures how many records would be late at real speed."
