"""`cutover watch P`: lag by partition, the watermark, the late share, one word on each; and `cutover runbook ALERT`.

A runbook is a page, filled for the incident of a pipeline. Kafka's client and the readers of tables are imported where
a pipeline is read, because a page alone has to show fast.
"""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from cutover import runbooks
from cutover.clock import SystemClock
from cutover.errors import CutoverError
from cutover.output.console import Line, Output, Verbatim, make_table, styled
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.text import duration
from cutover.settings import load_settings
from cutover.timestamps import from_micros

if TYPE_CHECKING:
    from cutover.reconcile.watch.collector import FactCollector
    from cutover.reconcile.watch.status import WatchStatus


def runbook(
    name: Annotated[str | None, typer.Argument(help="Of an alert, or another page; none: all are listed.")] = None,
    *,
    pipeline: Annotated[str | None, typer.Option("--pipeline", "-p", help="Fill the page for this one.")] = None,
) -> Iterator[Output]:
    """Print a runbook; of a pipeline: what fires now, windows, offsets, the last similar incident, its own commands."""
    if name is None:
        yield from _list_pages()
        return
    page = runbooks.read_page(name)
    text = runbooks.read_text(name) or ""
    if pipeline is None:
        yield Output(document={"name": page.name, "text": text}, lines=[Verbatim(text)])
    else:
        yield _fill_page(name, text, pipeline)


def _fill_page(name: str, text: str, pipeline: str) -> Output:
    from dataclasses import asdict

    from cutover.cli.definitions import load_command_definition
    from cutover.reconcile.incident import fill_page
    from cutover.reconcile.watch.collector import FactCollector
    from cutover.reconcile.watch.status import make_status

    settings = load_settings()
    definition = load_command_definition(settings, pipeline, running=True)
    lake = PipelineLake(settings, definition)
    now = make_status(FactCollector(lake, SystemClock()).collect())
    filled = fill_page(lake, name, text, now)
    return Output(document=asdict(filled), lines=[Verbatim(filled.to_text())])


def _list_pages() -> Iterator[Output]:
    for name in runbooks.list_runbooks():
        head = runbooks.read_page(name).head
        row = {"name": name, "severity": head.severity, "owner": head.owner, "alert": head.alert, "drill": head.drill}
        yield Output(document=row, lines=[f"{name:24} {head.severity:7} {head.owner}"])


_STYLES = {"OK": "green", "ADVANCING": "green", "NO_INPUT": "green", "LAGGING": "yellow", "BACKPRESSURED": "yellow"}
_TONES = {"page": "bold red", "ticket": "yellow", "info": "green"}


def watch(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    once: Annotated[bool, typer.Option("--once", help="Look once and end: 0, or 2 if the verdict is UNKNOWN.")] = False,
    metrics: Annotated[
        bool, typer.Option("--metrics", help="Write every sample to a text file for node_exporter too.")
    ] = False,
    interval: Annotated[float, typer.Option("--interval", min=0.5, max=120, help="Seconds between two looks.")] = 5.0,
) -> Iterator[Output]:
    """Watch a stream: lag by partition, watermark, late share, one word of verdict, the alerts. Changes no table."""
    from cutover.cli.definitions import load_command_definition
    from cutover.lake.tables.checksums import read_once
    from cutover.reconcile.watch.collector import FactCollector
    from cutover.reconcile.watch.status import LagVerdict, write_metrics_file

    settings = load_settings()
    collector = FactCollector(
        PipelineLake(settings, load_command_definition(settings, pipeline, running=True)), SystemClock()
    )
    with read_once():  # a sample of tables that are unchanged since the last one costs next to nothing
        while True:
            status = _read_status(collector)
            if metrics:
                write_metrics_file(settings, status)
            is_unknown = once and status.verdict == LagVerdict.UNKNOWN
            yield Output(
                document=status.to_json(),
                lines=[*describe_head(status), _tabulate_partitions(status)],
                exit_code=CutoverError.exit_code if is_unknown else 0,
                replaces_previous=not once,
            )
            if once:
                return
            time.sleep(interval)


def _read_status(collector: "FactCollector") -> "WatchStatus":
    """Collect the facts and evaluate them.

    Raises:
        LakeError: There is nothing to sample yet, and nothing that says why.
    """
    from cutover.reconcile.watch.collector import make_no_epoch_error
    from cutover.reconcile.watch.status import make_status

    facts = collector.collect()
    status = make_status(facts)
    if status.epoch is None and not status.alerts:
        raise make_no_epoch_error(facts.pipeline)
    return status


def _tabulate_partitions(watch_status: "WatchStatus") -> Table:
    from cutover.log.topic_partitions import format_partition_number

    numbers = ("read up to", "log end", "unread", "log time unread")
    return make_table(
        ("partition", "verdict", *numbers),
        (
            (
                format_partition_number(partition.partition),
                styled(_word(str(partition.verdict))),
                f"{partition.read:,}",
                f"{partition.end:,}",
                f"{partition.unread:,}",
                "unknown" if partition.seconds is None else duration(partition.seconds),
            )
            for partition in watch_status.partitions
        ),
        right=numbers,
    )


def describe_head(watch_status: "WatchStatus") -> list[Line]:
    """Return the lines above the partitions: stream, watermark, late share, error and alerts."""
    from cutover.reconcile.watch.status import describe_late_share

    driver, lag = watch_status.driver, watch_status.watermark_lag_seconds
    without = "epoch unknown" if watch_status.late_epochs is None else "no epoch"
    epoch = without if watch_status.epoch is None else f"epoch {watch_status.epoch:,}"
    unread = "unknown" if watch_status.unread is None else f"{watch_status.unread:,}"
    state = "unknown" if driver is None else driver.state
    stream = f"{epoch}, {unread} unread, driver {state}"
    lag_text = "" if lag is None else f", {duration(lag)} behind it"
    moments = f"{_moment(watch_status.watermark)}, newest event {_moment(watch_status.newest_event)}{lag_text}"
    lines: list[Line] = [
        styled((watch_status.pipeline, "bold"), "  ", _word(watch_status.verdict), f"  {stream}"),
        styled("watermark  ", _word(watch_status.watermark_verdict), f"  {moments}"),
        f"late share  {describe_late_share(watch_status)}",
    ]
    if driver is not None and driver.error:
        lines.append(styled(("error", "red"), f"  {driver.error}"))
    lines += [
        styled((alert.severity, _TONES[alert.severity]), f"  docs/runbooks/{alert.name}.md: {alert.text}")
        for alert in watch_status.alerts
    ]
    if watch_status.undecided:
        lines.append(f"not decided, as a source cannot be read: {', '.join(watch_status.undecided)}")
    return lines


def _word(verdict: str) -> tuple[str, str]:
    return verdict, f"bold {_STYLES.get(verdict, 'red')}"


def _moment(micros: int | None) -> str:
    return "none" if micros is None else f"{from_micros(micros):%Y-%m-%d %H:%M:%S}"


COMMANDS = {"runbook": runbook, "watch": watch}
