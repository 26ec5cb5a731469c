"""Sentences on lateness, on settlement and on the speed of a replay, for the terminal, the page and the pull request.

Of a log that was replayed they state the speed at which it was read, and the figures that remain unknown; of
settlement, the ages from which on the stream's answer can be trusted and the log is complete.
"""

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from cutover.definition.loading.key_text import format_columns
from cutover.lake.epochs.read_speed import REPLAY, tells_real_speed
from cutover.reconcile.result import text
from cutover.reconcile.result.codec import Scalar
from cutover.reconcile.result.finding import Waterfall
from cutover.reconcile.result.measurements import (
    EarlyAnswers,
    EarlyPoint,
    LatenessCount,
    LatenessSegment,
    LateShares,
    LateSource,
    OpenAnswers,
    OpenPoint,
)
from cutover.reconcile.result.parts import FEW, NEARLY_ALL, Settlement, SettlementPoint
from cutover.reconcile.result.text import THIN, count_noun, minutes, share
from cutover.records.classes import Class


def describe_replayed(speed: float | None) -> str:
    """Describe that records were replayed, and how much faster they were read than produced.

    Args:
        speed: Log time per second of processing; None if unknown, or if log timestamps are those of a bulk load.
    """
    if speed is None:
        return "Records were replayed (how fast is unknown)"
    if speed < REPLAY:
        return "Records were read long after they were produced"
    return f"Records were replayed about {round(speed):,} times faster than they were produced"


def describe_replay(pipeline: str | None, speed: float | None) -> str:
    """Describe that a log was replayed, with the command that measures late records at real speed, if it can.

    Args:
        pipeline: Its name; None if it follows a job, whose watermarks are in its checkpoint.
        speed: As for `describe_replayed`.
    """
    if pipeline is None:
        return f"{describe_replayed(speed)}."
    condition = "" if speed is not None else ", unless log timestamps do not show it"
    return (
        f"{describe_replayed(speed)}: `cutover lateness {pipeline}` measures how many records"
        f" would be late at real speed{condition}."
    )


UNKNOWN_SPEED = (
    "It is unknown whether the log was replayed: many records were read in the first epoch of a driver, or a clock was"
    " set back."
)
"""Sentence on a log of which the epochs do not show how fast it was read."""


def describe_late_amounts(waterfalls: Sequence[Waterfall]) -> str | None:
    """Describe what the late records add to each additive measure that they change; None if they change none.

    Args:
        waterfalls: Of the additive measures of a comparison.
    """
    parts = []
    for waterfall in waterfalls:
        amounts = [_parse_number(step.amount) for step in waterfall.steps if step.cause == Class.LATE]
        total = _parse_number(waterfall.batch)
        if not amounts or amounts[0] in {None, 0}:
            continue
        missing = -(amounts[0] or Decimal(0))
        late_share = float(missing / total) if total else -1.0
        share_text = f" ({text.share(late_share)} of {total:,f})" if 0 < late_share <= 1 else ""
        parts.append(f"{missing:,f} of {waterfall.measure}{share_text}")
    return f"Late records are worth {', '.join(parts)}." if parts else None


def _parse_number(value: Scalar) -> Decimal | None:
    """Parse a value of a measure with all of its digits; None if it is no finite number."""
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


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
    return f"Late share: {real}, {read}, of {count_noun(shares.pairs, 'record')} in windows."


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
    return f"{text.duration(lateness_count.from_seconds)} to {text.duration(lateness_count.to_seconds)}"


def describe_early(early_answers: EarlyAnswers) -> str:
    """Describe the age from which on nearly all early answers were near, with the number of windows, or why none is."""
    if early_answers.is_replay is None and early_answers.unknown is None:
        return f"Of early answers nothing is known. {UNKNOWN_SPEED}"
    replay = ""
    if early_answers.is_replay:
        replay = (
            f" {describe_replayed(early_answers.read_speed)}, many at once, so this does not show how right answers are"
            " at an age while records arrive."
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


_HOLD = f"a right answer holds at least 99.9{THIN}% of the records read so far"


def describe_settlement(settlement: Settlement, pipeline: str | None) -> str:
    """Describe the effect of waiting on the stream's answer, then on the log, with bounds.

    Args:
        settlement: Curves of a comparison.
        pipeline: Its name, for the command that measures what a replay cannot show; None if it follows a job.
    """
    if settlement.is_replay is None:
        right = f"{_count(settlement.final)} {_verb(settlement.final)} right {_describe_closing(settlement)}"
        return (
            f"{UNKNOWN_SPEED} So no age is concluded from which on the stream's answer can be trusted or the log is"
            f" complete: as the epochs read it, {right} ({_list_conditions(settlement)})."
        )
    curves = f"{describe_stream(settlement)} {describe_log(settlement)}"
    if not settlement.is_replay:
        return curves
    return f"{describe_replay(pipeline, settlement.read_speed)} These ages include this replay. {curves}"


def describe_stream(settlement: Settlement) -> str:
    """Describe the age from which on the stream's answer has nearly all records, or that waiting does not help."""
    final, closing = settlement.final, _describe_closing(settlement)
    right = f"{_count(final)} {_verb(final)} right"
    if final.within.of < FEW:
        return (
            f"Too few windows have closed to say when the stream's answer can be trusted (at least {FEW} are needed):"
            f" {right} {closing} ({_list_conditions(settlement)})."
        )
    trusted = settlement.trusted
    if trusted is None:
        return (
            f"Waiting does not make the stream's answer right: {right} (at most {share(final.within.upper)}"
            f" with 95{THIN}%) {closing} ({_list_conditions(settlement)}),"
            " and no answer changes after that."
        )
    closing_text = "" if trusted is final else f"; {right} {closing}"
    return (
        f"The stream's answer can be trusted from {minutes(trusted.minutes)} after the end of its window on:"
        f" {_count(trusted)} (at least {share(trusted.within.lower)} with 95{THIN}%) {_verb(trusted)} right"
        f"{closing_text} ({_list_conditions(settlement)})."
    )


def _describe_closing(settlement: Settlement) -> str:
    """Describe when windows close, for one window or for many."""
    close, their = ("it closes", "its") if settlement.final.within.of == 1 else ("they close", "their")
    return f"when {close}, {minutes(settlement.closing_minutes)} after {their} end"


def _list_conditions(settlement: Settlement) -> str:
    """Describe the criterion for a right answer, and the windows that differ for a cause other than late records."""
    if not settlement.other_causes:
        return _HOLD
    differ = "differs" if settlement.other_causes == 1 else "differ"
    return f"{_HOLD}; {count_noun(settlement.other_causes, 'window')} {differ} for another cause than late records"


def describe_log(settlement: Settlement) -> str:
    """Describe the age from which on the log has nearly all records that had been read at the cut."""
    complete = settlement.complete
    if complete is not None:
        return (
            f"The log, late records included, is complete from {minutes(complete.minutes)} on:"
            f" {_count(complete)} that old."
        )
    known_points = [point for point in settlement.log if point.within.of >= FEW]
    if not known_points:
        return f"Too few windows are old enough to say when the log is complete (at least {FEW} are needed)."
    oldest, last = known_points[-1], settlement.log[-1]
    if last.within.of < FEW and last.within.hits == last.within.of:
        return (
            f"Too few windows are old enough to say when the log is complete: at {minutes(last.minutes)} it is in"
            f" {_count(last)} (at least {FEW} are needed), at {minutes(oldest.minutes)} in {_count(oldest)}."
        )
    return (
        f"At no age does the log become complete and stay so: at {minutes(oldest.minutes)}, the greatest that was"
        f" measured of {FEW} windows, it is in {_count(oldest)}."
    )


def _count(point: SettlementPoint) -> str:
    return f"{point.within.hits:,} of {count_noun(point.within.of, 'window')}"


def _verb(point: SettlementPoint) -> str:
    return "is" if point.within.of == 1 else "are"
