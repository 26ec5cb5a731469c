"""Why a comparison compared nothing, and which command comes next: agreement of nothing with nothing proves nothing."""

from collections.abc import Iterator

from cutover.lake.control.versions import format_option
from cutover.reconcile.result.outcome import Events, Reconciliation
from cutover.reconcile.result.seal import SealBreach
from cutover.reconcile.result.text import count_noun, when

LEDGER = "SELECT _class, reason, count(*) FROM ledger GROUP BY ALL"
_USELESS = ("malformed", "future", "filtered", "duplicate", "late")


def breach(found: Reconciliation, *, asked: str | None) -> SealBreach:
    """Return the reason why no window was compared, with a hint.

    Args:
        found: What was counted up to the cut; nothing of it was judged.
        asked: The range of window starts that was asked for, in words; None: none was.
    """
    text, hint = next(_reasons(found, asked))
    message = f"Epoch {found.seal.epoch} of `{found.pipeline}`: expected a closed window to compare, got {text}."
    return SealBreach(code="nothing", message=f"{message} Hint: {hint}", runbook="NotComparable")


def _reasons(found: Reconciliation, asked: str | None) -> Iterator[tuple[str, str]]:
    name, still_open = found.pipeline, count_noun(found.windows.open, "open one")
    number = found.seal.versions.stream
    option = format_option(number)
    drain = f"cutover replay {name} --into {number}" if number else f"cutover stream {name} --drain"
    if asked is not None:
        beside = f", {still_open}" if found.windows.open else ""
        yield f"none that starts {asked}{beside}", f"`cutover reconcile {name}{option}` compares all closed windows."
    if found.windows.open:
        at = when(found.seal.watermark) if found.seal.watermark else "none"
        closing = f"newer records close windows, `cutover stream {name} --final` closes all for good"
        yield (
            f"{still_open} alone (watermark: {at})",
            f"{closing}; then `cutover batch {name}{option}`, and compare again.",
        )
    read = sum(getattr(found.events, kind) for kind in (*_USELESS, "accepted"))
    if read:
        text = f"no record of {read:,} that counts: {_classes(found.events)}"
        yield (
            text,
            f"`cutover sql {name}{option} '{LEDGER}'` says why; the definition and what the producer sends do not fit.",
        )
    again = f"`{drain}` and `cutover batch {name}{option}`"
    yield "no record at all", f"`cutover produce FILE --pipeline {name}`, then {again}."


def _classes(events: Events) -> str:
    counted = {kind: getattr(events, kind) for kind in _USELESS}
    return ", ".join(f"{count:,} {kind}" for kind, count in counted.items() if count)
