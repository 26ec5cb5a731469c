"""The lateness of a log in words: one sentence for the terminal, the page and the pull request."""

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


def name_segment(one: LatenessSegment | LateSource) -> str:
    """Return a partition or a value as people type it: `partition 3`, `carrier=UA`."""
    if one.column is None:
        return f"partition {one.value}"
    return format_columns({one.column: one.value})


def describe_shares(shares: LateShares) -> str:
    """Return the late share at real speed beside that of the epochs."""
    if not shares.pairs:
        return "Late share: no record counts in a window."
    real = "unknown at real speed (log timestamps do not tell it)"
    if tells_real_speed(shares.pace):
        real = f"{text.share(shares.real_share)} at real speed ({text.count_noun(shares.at_real_speed, 'record')})"
    read = f"{text.share(shares.read_share)} as the epochs read them ({shares.as_read:,})"
    return f"Late share: {real}, {read}, of {shares.pairs:,} records in windows."


def format_real_late(shares: LateShares, late: int) -> str:
    """Return a number of records that are late at real speed; `unknown` where log timestamps do not tell."""
    return f"{late:,}" if tells_real_speed(shares.pace) else "unknown"


def describe_source(late_source: LateSource) -> str:
    """Return what a segment that alone is late has of the late records and of all."""
    shares = f"{text.share(late_source.late_share)} of the late records, {text.share(late_source.share)} of all"
    return f"{name_segment(late_source)}: {shares}"


def name_lateness(lateness_count: LatenessCount) -> str:
    """Return a bin of the histogram: `not behind`, `5 min to 15 min`, `7 d and more`."""
    if lateness_count.to_seconds == 0:
        return "not behind"
    if lateness_count.to_seconds is None:
        return f"{text.duration(lateness_count.from_seconds)} and more"
    low = "0" if lateness_count.from_seconds == 0 else text.duration(lateness_count.from_seconds)
    return f"{low} to {text.duration(lateness_count.to_seconds)}"


def describe_early(early_answers: EarlyAnswers) -> str:
    """Return from which age on nearly all early answers were near, on how many windows that rests, or why not."""
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
    known = [point for point in early if point.within.of >= FEW]
    if not known:
        most = max(point.within.of for point in early)
        some = f"at any age at most {text.count_noun(most, 'window')} showed one"
        return f"Of early answers hardly anything is known: {some}, {FEW} are needed."
    early_point = _find_first_near(known)
    one = known[-1] if early_point is None else early_point
    length, near = text.minutes(one.minutes), text.share(early_answers.near)
    windows = f"{one.within.hits:,} of {text.count_noun(one.within.of, 'window')}"
    bound = f"at least {text.share(one.within.lower)} with 95 %"
    if early_point is not None:
        since = f"from {length} after the end of their window on"
        return f"Early answers were within {near} of batch {since}: {windows} at that age ({bound})."
    return f"Early answers were not within {near} of batch before windows closed: {windows} {length} after their end."


def _find_first_near(points: Sequence[EarlyPoint]) -> EarlyPoint | None:
    """Return the first age from which on, at all later ones too, nearly all answers were near."""
    first = None
    for point in reversed(points):
        if point.within.hits < NEARLY_ALL * point.within.of:
            break
        first = point
    return first


def describe_open(open_answers: OpenAnswers) -> str:
    """Return how right what is shown of open windows is, or why nothing is known."""
    if open_answers.unknown is not None:
        return f"Of windows open at the cut nothing is known. {open_answers.unknown}"
    what = "the panes shown" if open_answers.shown == "panes" else "what was accepted so far"
    of = text.count_noun(open_answers.looked, "open window")
    looked = of if open_answers.looked == open_answers.windows else f"the newest {of} ({open_answers.windows:,} in all)"
    same = f"{what} is that of batch over the same cut in {open_answers.same:,}".replace("shown is", "shown are")
    return f"Of {looked} {same}, within {text.share(open_answers.near)} of it in {open_answers.within.hits:,}."


def name_age(open_point: OpenPoint) -> str:
    """Return the age of open windows, from their start: `5 min to 15 min`."""
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
"""What templates call by its name."""
