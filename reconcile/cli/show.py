"""Comparisons for people at a terminal: the sentence, the causes, where the report is."""

from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cutover.definition.loading.key_text import format_columns, format_values
from cutover.log.topic_partitions import format_number
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.attribution.explain import Explanation
from cutover.reconcile.result.codec import Scalar
from cutover.reconcile.result.finding import Events, RuleState, Verdict
from cutover.reconcile.result.lateness_text import describe_early, describe_open
from cutover.reconcile.result.report import Report
from cutover.reconcile.result.settlement_text import describe_settlement
from cutover.reconcile.result.tables_text import describe_equal_within, describe_readings
from cutover.reconcile.result.text import (
    LONGEST_VALUE,
    count_noun,
    counts,
    cut_text,
    format_signed,
    message_text,
    number,
    share,
    when,
)
from cutover.settings import Settings

_STYLES = {Verdict.CONSISTENT: "green", Verdict.EXPLAINED: "green", Verdict.DIVERGED: "red"}
_CELLS_SHOWN = 10
_SEGMENTS_SHOWN = 3


def address(settings: Settings, relative: str | None) -> str | None:
    """Return where a report can be opened: under `report_base_url`, else as a file."""
    if relative is None:
        return None
    if settings.report_base_url:
        return f"{settings.report_base_url.rstrip('/')}/{relative}"
    return (settings.reports_dir / relative).as_uri()


def comparison(console: Console, result: Report, location: str | None) -> None:
    """Print a comparison: verdict, causes, first differences, notes, address of the report."""
    style = (
        "yellow"
        if result.finding.exit_code and result.finding.verdict is Verdict.EXPLAINED
        else _STYLES.get(result.finding.verdict, "yellow")
    )
    console.print(f"[bold {style}]{result.finding.verdict}[/]  {message_text(result.finding.sentence)}")
    _print_standing(console, result)
    if result.finding.loss:
        console.print(f"lost  {message_text(result.finding.loss)}")
    if result.finding.kind == "pipeline" and result.finding.seal.holds:
        _pipeline(console, result)
    if result.finding.differences:
        console.print(_cells(result))
    for segment in result.finding.segments[:_SEGMENTS_SHOWN]:
        of = f"{number(segment.different)} of its {number(segment.rows)} rows differ"
        of += f", {number(segment.lift)} times its share"
        console.print(f"over-represented  {message_text(format_columns({segment.column: segment.value}))}: {of}")
    for reason in result.finding.policy.reasons if result.finding.seal.holds else ():
        console.print(f"policy  {message_text(reason)}")
    _print_accepted(console, result)
    for breach in result.finding.seal.breaches[1:]:
        console.print(f"seal  {message_text(breach.message)}")
    _print_lines(console, "read", describe_readings(result.finding.readings))
    _print_lines(console, "within", describe_equal_within(result.finding.equal_within))
    _print_lines(console, "note", result.finding.notes)
    if result.finding.runbook:
        console.print(f"runbook  docs/runbooks/{result.finding.runbook}.md")
    if location:
        console.print(f"report  {location}", soft_wrap=True)


def _print_lines(console: Console, head: str, lines: Iterable[str]) -> None:
    for line in lines:
        console.print(f"{head}  {message_text(line)}")


def _print_accepted(console: Console, result: Report) -> None:
    for rule in result.finding.accepted:
        if rule.state is RuleState.IN_FORCE and rule.rows:
            line = f"{count_noun(rule.rows, 'row')} by rule {rule.rule} of {rule.owner}, until {when(rule.expires)}"
            console.print(f"accepted  {message_text(f'{line}: {rule.reason}')}")


def _print_standing(console: Console, result: Report) -> None:
    """Print the cut that the comparison covers, if it is not current, and that it is a repeat."""
    if result.run.speaks_for:
        console.print(f"past  {message_text(result.run.speaks_for)}")
    if result.run.repeats:
        times = "once" if result.run.repeats == 1 else f"{result.run.repeats:,} times"
        console.print(f"repeat  the same was found {times} before, first at {when(result.run.at)}")


def _pipeline(console: Console, result: Report) -> None:
    windows = result.finding.windows
    console.print(
        f"epoch {result.finding.seal.epoch}, {windows.compared:,} windows compared, {windows.different:,} differ,"
        f" {windows.open:,} open, {windows.incomplete:,} incomplete{counts(windows.incomplete_because)};"
        f" late share {share(result.finding.policy.late_share)}"
    )
    if result.settlement is not None:
        settled = describe_settlement(result.settlement, result.finding.pipeline)
        console.print(f"settled  {message_text(settled)}")
    if result.early is not None and result.early.points:
        console.print(f"early  {message_text(describe_early(result.early))}")
    if result.finding.open_answers is not None and result.finding.open_answers.looked:
        console.print(f"open  {message_text(describe_open(result.finding.open_answers))}")
    console.print(f"records  {describe_records(result.finding.events)}")
    table = Table("cause", "rows", "records behind them")
    for name, cause in result.finding.causes.items():
        if cause.rows or cause.events or name == UNEXPLAINED:  # a zero reads as if there were no such records
            table.add_row(name, number(cause.rows), number(cause.events))
    console.print(table)


def describe_records(events: Events) -> str:
    """Return how many records up to the cut counted, and how many of each other class there are."""
    other_classes = ("late", "future", "duplicate", "malformed", "filtered")
    further = "".join(f", {getattr(events, name):,} {name}" for name in other_classes if getattr(events, name))
    return f"{events.accepted:,} counted{further}"


def _cells(result: Report) -> Table:
    """Return the first cells that differ; of two tables without a cause: there is none."""
    is_pipeline = result.finding.kind == "pipeline"
    sides = ("streaming", "batch") if is_pipeline else ("actual", "expected")
    columns = ("window", "key", "measure", *sides, "difference", *(("cause",) if is_pipeline else ()))
    table = Table(*columns, title=f"{result.finding.differences_total:,} cells differ")
    for cell in result.finding.differences[:_CELLS_SHOWN]:
        table.add_row(
            when(cell.window_start),
            message_text(format_values(_cut_value(value) for value in cell.key.values())),
            message_text(cell.measure),
            message_text(number(_cut_value(cell.streaming))),
            message_text(number(_cut_value(cell.batch))),
            message_text(format_signed(cell.difference)) if cell.difference is not None else cell.kind,
            *((cell.cause,) if is_pipeline else ()),
        )
    return table


def _cut_value(value: Scalar) -> Scalar:
    return cut_text(value, LONGEST_VALUE) if isinstance(value, str) else value


def explanation(console: Console, explained: Explanation) -> None:
    """Print one cell: both values, the difference, its cause, and the rows behind it."""
    head = f"{explained.pipeline}  window {when(explained.window_start)}  key {format_values(explained.key.values())}"
    console.print(message_text(f"{head}  epoch {explained.epoch}  {explained.state}"))
    table = Table("measure", "streaming", "batch", "difference", "cause")
    for value in explained.values:
        apart = (
            "none"
            if value.cause is None
            else "not a number"
            if value.difference is None
            else format_signed(value.difference)
        )
        cells = (number(value.streaming), number(value.batch), apart)
        table.add_row(value.measure, *map(message_text, cells), value.cause or _describe_equal(explained))
    console.print(table)
    _print_lines(console, "lost", explained.lost)
    _print_lines(console, "note", (text for text in (explained.unproven, explained.unasked) if text is not None))
    columns = ("class", "partition", "offset", "event time", "epoch", "watermark before it", "reason")
    rows = Table(*columns, title="rows that did not count")
    for row in explained.rows:
        times = (when(row.event_time), str(row.epoch), when(row.watermark))
        rows.add_row(row.class_, format_number(row.partition), str(row.offset), *times, message_text(row.reason or ""))
    if explained.rows:
        console.print(rows)
    counts_text = ", ".join(f"{item.records:,} in epoch {item.epoch}" for item in explained.counted)
    console.print(f"rows that counted: {counts_text or 'none'}")
    for session in explained.sessions:
        console.print(
            f"session of {session.side}: {when(session.start)} to {when(session.end)}, {session.records:,} rows"
        )


def _describe_equal(explanation: Explanation) -> str:
    """Return what equal values say: where records are lost, both sides may miss the same ones."""
    return "equal, not judged" if explanation.lost or explanation.state.startswith("incomplete") else "equal"


def reports(console: Console, settings: Settings, paths: list[Path]) -> None:
    """Print the addresses of reports, newest first."""
    for path in paths:
        console.print(address(settings, path.relative_to(settings.reports_dir).as_posix()), soft_wrap=True)
