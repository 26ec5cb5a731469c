"""Sentences on settlement: the ages from which on the stream's answer can be trusted and the log is complete."""

from cutover.reconcile.result.replay_text import describe_replay
from cutover.reconcile.result.settlement import FEW, Settlement, SettlementPoint
from cutover.reconcile.result.text import THIN, count_noun, minutes, share

_HOLD = f"a right answer holds at least 99.9{THIN}% of the records read so far"


def describe_settlement(settlement: Settlement, pipeline: str) -> str:
    """Describe the effect of waiting on the stream's answer, then on the log, with bounds.

    Args:
        settlement: Curves of a comparison.
        pipeline: Its name, for the command that measures what a replay cannot show.
    """
    replay = (
        f" Both are of a replay. {describe_replay(pipeline, settlement.read_speed)}" if settlement.is_replay else ""
    )
    return f"{describe_stream(settlement)} {describe_log(settlement)}{replay}"


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
    oldest = known_points[-1]
    return (
        f"At no age does the log become complete and stay so: at {minutes(oldest.minutes)}, the greatest that was"
        f" measured of {FEW} windows, it is in {_count(oldest)}."
    )


def _count(point: SettlementPoint) -> str:
    return f"{point.within.hits:,} of {count_noun(point.within.of, 'window')}"


def _verb(point: SettlementPoint) -> str:
    return "is" if point.within.of == 1 else "are"
