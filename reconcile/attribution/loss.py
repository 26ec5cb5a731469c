"""What a comparison says of recorded losses: the ranges, one sentence for the top, and what nobody can know."""

from collections.abc import Mapping, Sequence

from cutover.lake.batch_runs import LOST
from cutover.lake.journal_rows import Loss
from cutover.log.topic_partitions import format_partition
from cutover.reconcile.result.finding import LostRange
from cutover.timestamps import format_micros

_MOST = 3  # ranges that the sentence names


def ranges(losses: Sequence[Loss]) -> tuple[LostRange, ...]:
    """Return the losses as the report shows them, in the order in which they were accepted."""
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


def sentence(losses: Sequence[Loss], incomplete: Mapping[str, int]) -> str | None:
    """Return what the losses mean for the closed windows; None: no window is touched.

    Args:
        losses: Of this version and of those before it.
        incomplete: Reason -> closed windows at this cut that are not judged.
    """
    touching = [loss for loss in losses if loss.windows is not None]
    if not touching:
        return None
    windows = incomplete.get(LOST, 0)
    named = "; ".join(_range(loss) for loss in touching[:_MOST])
    more = f"; and {len(touching) - _MOST} more" if len(touching) > _MOST else ""
    said = (
        f"{windows:,} closed window{'' if windows == 1 else 's'} may miss some of them: incomplete(lost), not compared"
    )
    return f"The log lost records ({named}{more}). {said}."


def describe_touching(losses: Sequence[Loss]) -> str | None:
    """Return that a window may miss records of recorded losses, all of which touch it; None: there is none."""
    if not losses:
        return None
    named = "; ".join(map(_range, losses))
    return f"The log lost records ({named}), and the window may miss some of them: incomplete(lost), not compared."


def notes(losses: Sequence[Loss]) -> tuple[str, ...]:
    """Return what cannot be known of the other windows."""
    gaps = [loss.windows_from for loss in losses if loss.kind != "anew" and loss.windows_from is not None]
    if not gaps:
        return ()
    micros = format_micros(min(gaps))
    text = f"Among the lost records may have been late ones of windows before {micros}, which were final by then."
    return (text + " Neither side has them: a comparison cannot show what both miss.",)


def _range(loss: Loss) -> str:
    place = f"{format_partition(loss.topic, loss.partition)}: "
    if loss.next is None:
        return place + f"offset {loss.first} and all after it of topic id {loss.topic_id}"
    return place + f"offsets {loss.first} to {loss.next - 1}"
