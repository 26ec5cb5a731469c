"""Sentences on a log that was replayed: how much faster it was read than it came about."""


def describe_pace_of_reading(speed: float | None) -> str:
    """Return how many times faster a replayed log was read than it came about, or that this is unknown.

    Args:
        speed: Log time that went by for each second; None: unknown, or log timestamps are those of a load.
    """
    if speed is None:
        return "faster than it came about (how much is unknown: its log timestamps do not tell)"
    return f"about {round(speed):,} times faster than it came about"
