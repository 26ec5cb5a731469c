"""`cutover lateness P`: how late records are, whose, and what share would be late at real speed."""

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from cutover.cli.definitions import find_definition
from cutover.clock import SystemClock
from cutover.reconcile.result import text
from cutover.reconcile.result.lateness_text import describe_shares, describe_source, format_real_late, name_segment
from cutover.reconcile.result.timeliness import LatenessQuantiles, LogLateness
from cutover.settings import load_settings


def lateness(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, with the histograms.")] = False,
) -> None:
    """Say how late records reached the log, by partition and value of the key. Kept for the next report."""
    from cutover.reconcile.advisor import record
    from cutover.reconcile.advisor.log_lateness import measure_log_lateness

    settings, clock = load_settings(), SystemClock()
    definition = find_definition(settings, pipeline)
    log_lateness = measure_log_lateness(settings, definition, clock)
    record.record(settings, log_lateness, clock)
    if as_json:
        shares = {"real_share": log_lateness.shares.real_share, "read_share": log_lateness.shares.read_share}
        fields = asdict(log_lateness)
        sys.stdout.write(json.dumps(fields | {"shares": fields["shares"] | shares}, allow_nan=False) + "\n")
    else:
        _print(Console(highlight=False, soft_wrap=True), log_lateness, has_ids=definition.source.record_id is not None)


LEGEND = (
    "Late at real speed: had each record been read when it was appended, by log timestamps. Late as read: by the epochs"
    " that read it."
)


def _print(console: Console, log_lateness: LogLateness, *, has_ids: bool) -> None:
    read = f"{text.count_noun(log_lateness.records, 'record')} in {text.count_noun(log_lateness.epochs, 'epoch')}"
    console.print(
        text.message_text(f"{log_lateness.pipeline}: {read}. Lateness: behind the event time reached before it.")
    )
    console.print(_table(log_lateness))
    console.print(text.message_text(LEGEND))
    console.print(text.message_text(describe_shares(log_lateness.shares)))
    for source in log_lateness.sources:
        console.print(text.message_text(f"late alone  {describe_source(source)}"))
    for note in log_lateness.notes:
        console.print(text.message_text(f"note  {note}"))
    advice = f"`cutover advise {log_lateness.pipeline}` says what to wait for."
    if has_ids:
        advice = "choose `lateness` by these lengths; advice cannot be given on a source with `record_id`."
    console.print(text.message_text(f"Next: {advice}"))


def _table(log_lateness: LogLateness) -> Table:
    columns = ("records", "half within", "90 %", "99 %", "99.9 %", "most", "late at real speed", "late as read")
    table = Table(box=None, pad_edge=False)
    table.add_column("of", no_wrap=True, min_width=12)
    for name in columns:
        table.add_column(name, justify="right")
    if log_lateness.lateness is not None:
        late = (
            format_real_late(log_lateness.shares, log_lateness.shares.at_real_speed),
            f"{log_lateness.shares.as_read:,}",
        )
        table.add_row("all", f"{log_lateness.records:,}", *_lengths(log_lateness.lateness), *late)
    for segment in log_lateness.segments:
        counts = (format_real_late(log_lateness.shares, segment.late), f"{segment.late_as_read:,}")
        table.add_row(
            text.message_text(name_segment(segment)), f"{segment.records:,}", *_lengths(segment.lateness), *counts
        )
    return table


def _lengths(of: LatenessQuantiles) -> tuple[str, ...]:
    return tuple(text.duration(seconds) for seconds in (of.p50, of.p90, of.p99, of.p999, of.largest))


COMMANDS = {"lateness": lateness}
