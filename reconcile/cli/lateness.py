"""`cutover lateness P`: how late records are, whose, and what share would be late at real speed."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from cutover.cli.definitions import find_definition
from cutover.clock import SystemClock
from cutover.output.console import Line, Output, make_table
from cutover.reconcile.result import text
from cutover.reconcile.result.lateness_text import describe_shares, describe_source, format_real_late, name_segment
from cutover.reconcile.result.timeliness import LatenessQuantiles, LogLateness
from cutover.settings import load_settings


def lateness(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
) -> Output:
    """Say how late records reached the log, by partition and value of the key. Kept for the next report."""
    from cutover.reconcile.advisor import record
    from cutover.reconcile.advisor.log_lateness import measure_log_lateness

    settings, clock = load_settings(), SystemClock()
    definition = find_definition(settings, pipeline)
    log_lateness = measure_log_lateness(settings, definition, clock)
    record.record_lateness(settings, log_lateness, clock)
    shares = {"real_share": log_lateness.shares.real_share, "read_share": log_lateness.shares.read_share}
    fields = asdict(log_lateness)
    return Output(
        document=fields | {"shares": fields["shares"] | shares},
        lines=_list_lines(log_lateness, has_ids=definition.source.record_id is not None),
    )


LEGEND = (
    "Late at real speed: had each record been read when it was appended, by log timestamps. Late as read: by the epochs"
    " that read it."
)


def _list_lines(log_lateness: LogLateness, *, has_ids: bool) -> Iterator[Line]:
    read = f"{text.count_noun(log_lateness.records, 'record')} in {text.count_noun(log_lateness.epochs, 'epoch')}"
    yield f"{log_lateness.pipeline}: {read}. Lateness: behind the event time reached before it."
    yield _tabulate(log_lateness)
    yield LEGEND
    yield describe_shares(log_lateness.shares)
    for source in log_lateness.sources:
        yield f"late alone  {describe_source(source)}"
    for note in log_lateness.notes:
        yield f"note  {note}"
    advice = f"`cutover advise {log_lateness.pipeline}` says what to wait for."
    if has_ids:
        advice = "choose `lateness` by these lengths; advice cannot be given on a source with `record_id`."
    yield f"Next: {advice}"


def _tabulate(log_lateness: LogLateness) -> Table:
    columns = ("records", "half within", "90 %", "99 %", "99.9 %", "most", "late at real speed", "late as read")
    return make_table(("of", *columns), _list_rows(log_lateness), right=columns, no_wrap=("of",))


def _list_rows(log_lateness: LogLateness) -> Iterator[tuple[str, ...]]:
    shares = log_lateness.shares
    if log_lateness.lateness is not None:
        late = (format_real_late(shares, shares.at_real_speed), f"{shares.as_read:,}")
        yield "all", f"{log_lateness.records:,}", *_lengths(log_lateness.lateness), *late
    for segment in log_lateness.segments:
        late = (format_real_late(shares, segment.late), f"{segment.late_as_read:,}")
        yield name_segment(segment), f"{segment.records:,}", *_lengths(segment.lateness), *late


def _lengths(of: LatenessQuantiles) -> tuple[str, ...]:
    return tuple(text.duration(seconds) for seconds in (of.p50, of.p90, of.p99, of.p999, of.largest))


COMMANDS = {"lateness": lateness}
