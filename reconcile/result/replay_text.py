"""Sentences on a log that was replayed: the speed at which it was read, and the figures that remain unknown."""


def describe_pace_of_reading(speed: float | None) -> str:
    """Describe the speed at which a replayed log was read, relative to that at which it was written.

    Args:
        speed: Log time per second of processing; None if unknown, or if log timestamps are those of a bulk load.
    """
    if speed is None:
        return "faster than it came about (how much is unknown: log timestamps do not show it)"
    return f"about {round(speed):,} times faster than it came about"


def describe_replay(pipeline: str, speed: float | None) -> str:
    """Describe that a log was replayed, with the command that measures late records at real speed, if it can.

    Args:
        pipeline: Its name.
        speed: As for `describe_pace_of_reading`.
    """
    read = f"The log was read {describe_pace_of_reading(speed)}"
    if speed is None:
        return f"{read}, so how many records would be late at real speed is unknown too."
    return f"{read}: `cutover lateness {pipeline}` measures how many records would be late at real speed."
