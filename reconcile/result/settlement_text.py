"""Settlement in words: from which age on the stream's answer can be trusted, and from which on the log is complete."""

from cutover.reconcile.result.replay_text import describe_pace_of_reading
from cutover.reconcile.result.settlement import FEW, NEARLY_ALL, Settlement, SettlementPoint
from cutover.reconcile.result.text import THIN, count_noun, minutes, share

_HOLD = f"99.9{THIN}% of the records read so far"


def describe_settlement(found: Settlement) -> str:
    """Return what waiting does for the stream's answer, then what it does for the log, with bounds."""
    return f"{describe_stream(found)} {describe_log(found)}{_describe_replay(found)}"


def _describe_replay(found: Settlement) -> str:
    if not found.is_replay:
        return ""
    return (
        f" Both are of a replay: the log was read {describe_pace_of_reading(found.read_speed)}. Which records would be"
        " late at real speed is measured by `cutover lateness`."
    )


def describe_stream(found: Settlement) -> str:
    """Return from which age on the stream's answer holds nearly all records, or that no waiting makes it hold them."""
    final, closing = found.final, minutes(found.closing_minutes)
    if final.within.of < FEW:
        return (
            f"Too few windows have closed to say when the stream's answer can be trusted (at least {FEW} are needed):"
            f" {_count(final)} {_verb(final)} {_HOLD} when they close, {closing} after their end."
        )
    trusted = found.trusted
    if trusted is None:
        return (
            f"Waiting does not make the stream's answer right: {_count(final)} (at most {share(final.within.upper)}"
            f" with 95{THIN}%) {_verb(final)} {_HOLD} when they close, {closing} after their end,"
            f" and at every age after it, since late records are dropped.{_describe_other_causes(found)}"
        )
    rest = "" if trusted is final else f", {_count(final)} when they close, {closing} after their end"
    return (
        f"The stream's answer can be trusted from {minutes(trusted.minutes)} after the end of its window on:"
        f" {_count(trusted)} (at least {share(trusted.within.lower)} with 95{THIN}%) {_verb(trusted)} {_HOLD}{rest}."
        f"{_describe_other_causes(found)}"
    )


def describe_log(found: Settlement) -> str:
    """Return from which age on the log holds nearly all records that had been read at the cut."""
    complete = found.complete
    if complete is not None:
        return (
            f"The log, late records included, is complete from {minutes(complete.minutes)} on:"
            f" {_count(complete)} that old."
        )
    known = [point for point in found.log if point.within.of >= FEW]
    if not known:
        return f"Too few windows are old enough to say when the log is complete (at least {FEW} are needed)."
    short = next(point for point in reversed(known) if point.within.hits < NEARLY_ALL * point.within.of)
    return (
        f"The log is not complete at any age that {FEW} windows have reached: {_count(short)} that are"
        f" {minutes(short.minutes)} old."
    )


def _count(point: SettlementPoint) -> str:
    return f"{point.within.hits:,} of {count_noun(point.within.of, 'window')}"


def _verb(point: SettlementPoint) -> str:
    return "holds" if point.within.of == 1 else "hold"


def _describe_other_causes(found: Settlement) -> str:
    if not found.other_causes:
        return ""
    return f" {count_noun(found.other_causes, 'window')} of these differ for another cause than late records."
