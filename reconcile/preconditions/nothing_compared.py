"""Reasons why a comparison compared no window, and the next command: nothing equal to nothing proves nothing."""

from collections.abc import Iterator

from cutover.lake.control.versions import format_option
from cutover.reconcile.result.finding import Events, Windows
from cutover.reconcile.result.seal import Seal, SealBreach
from cutover.reconcile.result.text import count_noun, when

LEDGER = "SELECT _class, reason, count(*) FROM ledger GROUP BY ALL"
_EXCLUDED = ("malformed", "future", "filtered", "duplicate", "late")


def make_breach(name: str, seal: Seal, windows: Windows, events: Events, *, requested: str | None) -> SealBreach:
    """Return the reason why no window was compared, with a hint.

    Args:
        name: The pipeline.
        seal: Cut and watermark.
        windows: Windows counted at the cut; none was compared.
        events: Records up to the cut, by class.
        requested: Requested range of window starts, in words; None: none was requested.
    """
    text, hint = next(_list_reasons(name, seal, windows, events, requested))
    message = f"Epoch {seal.epoch} of `{name}`: expected a closed window to compare, got {text}."
    return SealBreach(code="nothing", message=f"{message} Hint: {hint}", runbook="NotComparable")


def _list_reasons(
    name: str, seal: Seal, windows: Windows, events: Events, requested: str | None
) -> Iterator[tuple[str, str]]:
    """Yield reasons and hints, the most specific one first."""
    still_open, number = count_noun(windows.open, "open one"), seal.stream_version
    option = format_option(number)
    drain = f"cutover replay {name} --into {number}" if number else f"cutover stream {name} --drain"
    if requested is not None:
        open_note = f", {still_open}" if windows.open else ""
        yield (
            f"none that starts {requested}{open_note}",
            f"`cutover reconcile {name}{option}` compares all closed windows.",
        )
    if windows.open:
        watermark = when(seal.watermark) if seal.watermark else "none"
        closing = f"newer records close windows, `cutover stream {name} --final` closes all for good"
        yield (
            f"{still_open} alone (watermark: {watermark})",
            f"{closing}; then `cutover batch {name}{option}`, and compare again.",
        )
    counts = {kind: getattr(events, kind) for kind in _EXCLUDED}
    records = events.accepted + sum(counts.values())
    if records:
        by_class = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
        yield (
            f"no record of {records:,} that counts: {by_class}",
            f"`cutover sql {name}{option} '{LEDGER}'` says why; the definition and what the producer sends do not fit.",
        )
    next_commands = f"`{drain}` and `cutover batch {name}{option}`"
    yield "no record at all", f"`cutover produce FILE --pipeline {name}`, then {next_commands}."
