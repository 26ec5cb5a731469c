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


def describe_source(one: LateSource) -> str:
    """Return what a segment that alone is late has of the late records and of all."""
    shares = f"{text.share(one.late_share)} of the late records, {text.share(one.share)} of all"
    return f"{name_segment(one)}: {shares}"


def name_lateness(one: LatenessCount) -> str:
    """Return a bin of the histogram: `not behind`, `5 min to 15 min`, `7 d and more`."""
    if one.to_seconds == 0:
        return "not behind"
    if one.to_seconds is None:
        return f"{text.duration(one.from_seconds)} and more"
    low = "0" if one.from_seconds == 0 else text.duration(one.from_seconds)
    return f"{low} to {text.duration(one.to_seconds)}"


def describe_early(found: EarlyAnswers) -> str:
    """Return from which age on nearly all early answers were near, on how many windows that rests, or why not."""
    replay = ""
    if found.is_replay:
        replay = (
            f" This is of a replay: the log was read {describe_pace_of_reading(found.read_speed)},"
            " many records at once, so it does not show how right answers are at an age while records arrive."
        )
    return f"{_describe_nearness(found)}{replay}"


def _describe_nearness(found: EarlyAnswers) -> str:
    early = [point for point in found.points if point.is_open]
    if found.unknown is not None:
        return f"Of early answers nothing is known. {found.unknown}"
    if not early:
        return "Windows close within a minute of their end: no answer is early."
    known = [point for point in early if point.within.of >= FEW]
    if not known:
        most = max(point.within.of for point in early)
        some = f"at any age at most {text.count_noun(most, 'window')} showed one"
        return f"Of early answers hardly anything is known: {some}, {FEW} are needed."
    first = _find_first_near(known)
    one = known[-1] if first is None else first
    length, near = text.minutes(one.minutes), text.share(found.near)
    windows = f"{one.within.hits:,} of {text.count_noun(one.within.of, 'window')}"
    bound = f"at least {text.share(one.within.lower)} with 95 %"
    if first is not None:
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


def describe_open(found: OpenAnswers) -> str:
    """Return how right what is shown of open windows is, or why nothing is known."""
    if found.unknown is not None:
        return f"Of windows open at the cut nothing is known. {found.unknown}"
    what = "the panes shown" if found.shown == "panes" else "what was accepted so far"
    of = text.count_noun(found.looked, "open window")
    looked = of if found.looked == found.windows else f"the newest {of} ({found.windows:,} in all)"
    same = f"{what} is that of batch over the same cut in {found.same:,}".replace("shown is", "shown are")
    return f"Of {looked} {same}, within {text.share(found.near)} of it in {found.within.hits:,}."


def name_age(one: OpenPoint) -> str:
    """Return the age of open windows, from their start: `5 min to 15 min`."""
    if one.to_minutes is None:
        return f"{text.minutes(one.from_minutes)} and more"
    return "not begun" if one.to_minutes == 0 else f"{text.minutes(one.from_minutes)} to {text.minutes(one.to_minutes)}"


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
