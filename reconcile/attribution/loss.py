"""Recorded losses in a report: the ranges, a sentence for its head, and notes on what a comparison cannot show."""

from collections.abc import Mapping, Sequence

from cutover.lake.batch_runs import LOST
from cutover.lake.journal_rows import Loss
from cutover.log.topic_partitions import format_partition
from cutover.reconcile.result.finding import LostRange
from cutover.timestamps import format_micros

_MAX_RANGES = 3  # in the sentence


def list_ranges(losses: Sequence[Loss]) -> tuple[LostRange, ...]:
    """Return the ranges of losses for a report, in the order in which they were accepted."""
    return tuple(
        LostRange(
            topic=loss.topic,
            topic_id=loss.topic_id,
            partition=loss.partition,
            first=loss.first,
            next=loss.next,
            windows_from=format_micros(loss.windows_from),
            windows_to=format_micros(loss.windows_to),
            stream_version=loss.stream_version,
            epoch=loss.epoch,
            kind=loss.kind,
            who=loss.who,
            why=loss.why,
            at=loss.at.isoformat().replace("+00:00", "Z"),
        )
        for loss in losses
    )


def describe_losses(losses: Sequence[Loss], incomplete: Mapping[str, int]) -> str | None:
    """Describe the effect of losses on closed windows; None if they affect no window.

    Args:
        losses: Losses of this version and of earlier ones.
        incomplete: Reason -> number of closed windows at this cut that are not compared.
    """
    touching = [loss for loss in losses if loss.windows is not None]
    if not touching:
        return None
    windows = incomplete.get(LOST, 0)
    range_texts = "; ".join(_describe_range(loss) for loss in touching[:_MAX_RANGES])
    more = f"; and {len(touching) - _MAX_RANGES} more" if len(touching) > _MAX_RANGES else ""
    consequence = (
        f"{windows:,} closed window{'' if windows == 1 else 's'} may miss some of them: incomplete(lost), not compared"
    )
    return f"The log lost records ({range_texts}{more}). {consequence}."


def describe_touching(losses: Sequence[Loss]) -> str | None:
    """Describe losses that affect one window; None if there is none."""
    if not losses:
        return None
    range_texts = "; ".join(map(_describe_range, losses))
    return (
        f"The log lost records ({range_texts}), and the window may miss some of them: incomplete(lost), not compared."
    )


def list_loss_notes(losses: Sequence[Loss]) -> tuple[str, ...]:
    """Return notes on windows whose lost records no comparison can detect."""
    gaps = [loss.windows_from for loss in losses if loss.kind != "anew" and loss.windows_from is not None]
    if not gaps:
        return ()
    gap_end = format_micros(min(gaps))
    text = f"Among the lost records may have been late ones of windows before {gap_end}, which were final by then."
    return (text + " Neither side has them: a comparison cannot show what both miss.",)


def _describe_range(loss: Loss) -> str:
    place = f"{format_partition(loss.topic, loss.partition)}: "
    if loss.next is None:
        return place + f"offset {loss.first} and all after it of topic id {loss.topic_id}"
    return place + f"offsets {loss.first} to {loss.next - 1}"
