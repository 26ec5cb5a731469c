"""Sentences on the lateness of a log, for the terminal, the page and the pull request."""

from collections.abc import Sequence

from cutover.definition.loading.key_text import format_columns
from cutover.reconcile.result import text
from cutover.reconcile.result.replay_text import describe_pace_of_reading
from cutover.reconcile.result.settlement import FEW, NEARLY_ALL
from cutover.reconcile.result.timeliness import (
    EarlyAnswers,
    EarlyPoint,
    LatenessCount,
    LatenessSegment,
    LateShares,
    LateSource,
    OpenAnswers,
    OpenPoint,
    tells_real_speed,
)


def name_segment(segment: LatenessSegment | LateSource) -> str:
    """Format a partition or a value as people type it: `partition 3`, `carrier=UA`."""
    if segment.column is None:
        return f"partition {segment.value}"
    return format_columns({segment.column: segment.value})


def describe_shares(shares: LateShares) -> str:
    """Describe the late share at real speed and that of the epochs."""
    if not shares.pairs:
        return "Late share: no record counts in a window."
    real = "unknown at real speed (log timestamps do not show it)"
    if tells_real_speed(shares.pace):
        real = f"{text.share(shares.real_share)} at real speed ({text.count_noun(shares.at_real_speed, 'record')})"
    read = f"{text.share(shares.read_share)} as the epochs read them ({shares.as_read:,})"
    return f"Late share: {real}, {read}, of {shares.pairs:,} records in windows."


def format_real_late(shares: LateShares, late: int) -> str:
    """Format the number of records that are late at real speed; `unknown` if log timestamps do not show it."""
    return f"{late:,}" if tells_real_speed(shares.pace) else "unknown"


def describe_source(late_source: LateSource) -> str:
    """Describe the share of a late segment in the late records and in all records."""
    shares = f"{text.share(late_source.late_share)} of the late records, {text.share(late_source.share)} of all"
    return f"{name_segment(late_source)}: {shares}"


def name_lateness(lateness_count: LatenessCount) -> str:
    """Format a bin of the histogram: `not behind`, `5 min to 15 min`, `7 d and more`."""
    if lateness_count.to_seconds == 0:
        return "not behind"
    if lateness_count.to_seconds is None:
        return f"{text.duration(lateness_count.from_seconds)} and more"
    low = "0" if lateness_count.from_seconds == 0 else text.duration(lateness_count.from_seconds)
    return f"{low} to {text.duration(lateness_count.to_seconds)}"


def describe_early(early_answers: EarlyAnswers) -> str:
    """Describe the age from which on nearly all early answers were near, with the number of windows, or why none is."""
    replay = ""
    if early_answers.is_replay:
        replay = (
            f" This is of a replay: the log was read {describe_pace_of_reading(early_answers.read_speed)},"
            " many records at once, so it does not show how right answers are at an age while records arrive."
        )
    return f"{_describe_nearness(early_answers)}{replay}"


def _describe_nearness(early_answers: EarlyAnswers) -> str:
    early = [point for point in early_answers.points if point.is_open]
    if early_answers.unknown is not None:
        return f"Of early answers nothing is known. {early_answers.unknown}"
    if not early:
        return "Windows close within a minute of their end: no answer is early."
    known_points = [point for point in early if point.within.of >= FEW]
    if not known_points:
        largest_count = max(point.within.of for point in early)
        count_text = f"at any age at most {text.count_noun(largest_count, 'window')} showed one"
        return f"Of early answers hardly anything is known: {count_text}, {FEW} are needed."
    early_point = _find_first_near(known_points)
    shown_point = known_points[-1] if early_point is None else early_point
    length, near = text.minutes(shown_point.minutes), text.share(early_answers.near)
    windows = f"{shown_point.within.hits:,} of {text.count_noun(shown_point.within.of, 'window')}"
    bound_text = f"at least {text.share(shown_point.within.lower)} with 95 %"
    if early_point is not None:
        age_text = f"from {length} after the end of their window on"
        return f"Early answers were within {near} of batch {age_text}: {windows} at that age ({bound_text})."
    return f"Early answers were not within {near} of batch before windows closed: {windows} {length} after their end."


def _find_first_near(points: Sequence[EarlyPoint]) -> EarlyPoint | None:
    """Find the first age from which on nearly all answers were near, including at all later ages."""
    first_near = None
    for point in reversed(points):
        if point.within.hits < NEARLY_ALL * point.within.of:
            break
        first_near = point
    return first_near


def describe_open(open_answers: OpenAnswers) -> str:
    """Describe the accuracy of the results of open windows, or why it is unknown."""
    if open_answers.unknown is not None:
        return f"Of windows open at the cut nothing is known. {open_answers.unknown}"
    subject = "the panes shown" if open_answers.shown == "panes" else "what was accepted so far"
    window_text = text.count_noun(open_answers.looked, "open window")
    looked_text = (
        window_text
        if open_answers.looked == open_answers.windows
        else f"the newest {window_text} ({open_answers.windows:,} in all)"
    )
    same_text = f"{subject} is that of batch over the same cut in {open_answers.same:,}".replace(
        "shown is", "shown are"
    )
    return (
        f"Of {looked_text} {same_text}, within {text.share(open_answers.near)} of it in {open_answers.within.hits:,}."
    )


def name_age(open_point: OpenPoint) -> str:
    """Format the age of open windows, from their start: `5 min to 15 min`."""
    if open_point.to_minutes is None:
        return f"{text.minutes(open_point.from_minutes)} and more"
    return (
        "not begun"
        if open_point.to_minutes == 0
        else f"{text.minutes(open_point.from_minutes)} to {text.minutes(open_point.to_minutes)}"
    )


FILTERS = (
    name_segment,
    describe_shares,
    format_real_late,
    describe_source,
    describe_early,
    describe_open,
    name_age,
    name_lateness,
)
"""Filters for templates, by function name."""
