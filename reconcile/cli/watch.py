"""`cutover watch P`: lag by partition, the watermark, the late share, and one word on each."""

import json
import sys
import time
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from cutover.cli.definitions import find_definition
from cutover.clock import SystemClock
from cutover.errors import CutoverError
from cutover.lake.tables.run_memory import read_once
from cutover.log.topic_partitions import format_number
from cutover.output.markup import literal_text
from cutover.reconcile.result.text import duration
from cutover.reconcile.watch.collector import FactCollector
from cutover.reconcile.watch.lag import LagVerdict
from cutover.reconcile.watch.log_observer import make_no_epoch_error
from cutover.reconcile.watch.status import WatchStatus, describe_late_share, make_status, write_metrics
from cutover.settings import Settings, load_settings
from cutover.timestamps import from_micros

_STYLES = {"OK": "green", "ADVANCING": "green", "NO_INPUT": "green", "LAGGING": "yellow", "BACKPRESSURED": "yellow"}
_TONES = {"page": "bold red", "ticket": "yellow", "info": "green"}


def watch(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    once: Annotated[bool, typer.Option("--once", help="Look once and end: 0, or 2 if the verdict is UNKNOWN.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a look.")] = False,
    metrics: Annotated[
        bool, typer.Option("--metrics", help="Write every sample to a text file for node_exporter too.")
    ] = False,
    interval: Annotated[float, typer.Option("--interval", min=0.5, max=120, help="Seconds between two looks.")] = 5.0,
) -> None:
    """Watch a stream: lag by partition, watermark, late share, one word of verdict, the alerts. Changes no table."""
    settings = load_settings()
    gathering = FactCollector(settings, find_definition(settings, pipeline, running=True), SystemClock())
    look = _Look(gathering, settings if metrics else None)
    with read_once():  # a sample of tables that are unchanged since the last one costs next to nothing
        if once or as_json or not sys.stdout.isatty():
            _print(look, once=once, as_json=as_json, interval=interval)
            return
        with Live(_table(look.read_status()), screen=False, auto_refresh=False) as live:
            while True:
                time.sleep(interval)
                live.update(_table(look.read_status()), refresh=True)


class _Look:
    """Repeated samples of one pipeline."""

    def __init__(self, gathering: FactCollector, told_by: Settings | None = None) -> None:
        self._gathering, self._told_by = gathering, told_by

    def read_status(self) -> WatchStatus:
        """Look once more.

        Raises:
            LakeError: There is nothing to sample yet, and nothing that says why.
        """
        facts = self._gathering.collect()
        status = make_status(facts)
        if status.epoch is None and not status.alerts:
            raise make_no_epoch_error(facts.pipeline.name)
        if self._told_by is not None:
            write_metrics(self._told_by, status)
        return status


def _print(look: _Look, *, once: bool, as_json: bool, interval: float) -> None:
    console = Console()
    while True:
        status = look.read_status()
        if as_json:
            typer.echo(json.dumps(status.to_json()))
        else:
            console.print(_table(status))
        if once and status.verdict == LagVerdict.UNKNOWN:
            raise typer.Exit(CutoverError.exit_code)
        if once:
            return
        time.sleep(interval)


def _table(watch_status: WatchStatus) -> Group:
    table = Table("partition", "verdict", box=None, pad_edge=False)
    for name in ("read up to", "log end", "unread", "log time unread"):
        table.add_column(name, justify="right")
    for partition in watch_status.partitions:
        spans = "unknown" if partition.seconds is None else duration(partition.seconds)
        numbers = (f"{partition.read:,}", f"{partition.end:,}", f"{partition.unread:,}", spans)
        table.add_row(format_number(partition.partition), _word(str(partition.verdict)), *numbers)
    return Group(*describe_head(watch_status), table)


def describe_head(watch_status: WatchStatus) -> list[str]:
    """Return what stands above the partitions: stream, watermark, late share, error and alerts; with markup."""
    driver, lag = watch_status.driver, watch_status.watermark_lag_seconds
    without = "epoch unknown" if watch_status.late_epochs is None else "no epoch"
    epoch = without if watch_status.epoch is None else f"epoch {watch_status.epoch:,}"
    unread = "unknown" if watch_status.unread is None else f"{watch_status.unread:,}"
    state = "unknown" if driver is None else driver.state
    stream = f"{epoch}, {unread} unread, driver {state}"
    lag_text = "" if lag is None else f", {duration(lag)} behind it"
    moments = f"{_moment(watch_status.watermark)}, newest event {_moment(watch_status.newest_event)}{lag_text}"
    lines = [
        f"[bold]{watch_status.pipeline}[/]  {_word(watch_status.verdict)}  {stream}",
        f"watermark  {_word(watch_status.watermark_verdict)}  {moments}",
        f"late share  {describe_late_share(watch_status)}",
    ]
    if driver is not None and driver.error:
        lines.append(f"[red]error[/]  {literal_text(driver.error)}")
    lines += [
        f"[{_TONES[alert.severity]}]{alert.severity}[/]  docs/runbooks/{alert.name}.md: {escape(alert.text)}"
        for alert in watch_status.alerts
    ]
    if watch_status.undecided:
        lines.append(f"not decided, as a source cannot be read: {', '.join(watch_status.undecided)}")
    return lines


def _word(verdict: str) -> str:
    return f"[bold {_STYLES.get(verdict, 'red')}]{verdict}[/]"


def _moment(micros: int | None) -> str:
    return "none" if micros is None else f"{from_micros(micros):%Y-%m-%d %H:%M:%S}"


COMMANDS = {"watch": watch}
