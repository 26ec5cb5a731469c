"""`cutover watch P`: lag by partition, the watermark, the late share, and one word on each."""

import json
import sys
import time
from collections import deque
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from cutover.clock import SystemClock
from cutover.definition import catalogue
from cutover.definition.pipeline import Pipeline
from cutover.settings import Settings, load_settings
from reconcile.report.text import duration, share, visible
from reconcile.watch.lag import Sample
from reconcile.watch.observe import Observer
from reconcile.watch.status import Status, status

KEPT = 10
_STYLES = {"OK": "green", "ADVANCING": "green", "NO_INPUT": "green", "LAGGING": "yellow", "BACKPRESSURED": "yellow"}


def watch(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    once: Annotated[bool, typer.Option("--once", help="Look once and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a look.")] = False,
    interval: Annotated[float, typer.Option("--interval", min=0.5, help="Seconds between two looks.")] = 5.0,
) -> None:
    """Watch a stream: lag by partition, watermark, late share, and one word of verdict. Reads only."""
    settings = load_settings()
    look = _Look(settings, catalogue.get(settings, pipeline))
    if once or as_json or not sys.stdout.isatty():
        _print(look, once=once, as_json=as_json, interval=interval)
        return
    with Live(_table(look.again()), screen=False, auto_refresh=False) as live:
        while True:
            time.sleep(interval)
            live.update(_table(look.again()), refresh=True)


class _Look:
    """The newest samples of one pipeline."""

    def __init__(self, settings: Settings, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._observer = Observer(settings, pipeline, SystemClock())
        self._samples: deque[Sample] = deque(maxlen=KEPT)

    def again(self) -> Status:
        """Look once more and return the verdicts over the newest looks."""
        sample, records = self._observer.sample()
        self._samples.append(sample)
        return status(self._pipeline, list(self._samples), records)


def _print(look: _Look, *, once: bool, as_json: bool, interval: float) -> None:
    console = Console()
    while True:
        found = look.again()
        if as_json:
            typer.echo(json.dumps(found.to_json()))
        else:
            console.print(_table(found))
        if once:
            return
        time.sleep(interval)


def _table(found: Status) -> Group:
    table = Table("partition", "verdict", box=None, pad_edge=False)
    for name in ("read up to", "log end", "unread", "log time unread"):
        table.add_column(name, justify="right")
    for one in found.partitions:
        spans = "unknown" if one.seconds is None else duration(one.seconds)
        numbers = (f"{one.read:,}", f"{one.end:,}", f"{one.unread:,}", spans)
        table.add_row(str(one.partition), _word(str(one.verdict)), *numbers)
    return Group(*_head(found), table)


def _head(found: Status) -> list[str]:
    driver, behind = found.driver, duration(found.watermark_lag_seconds)
    stream = f"epoch {found.epoch:,}, {found.unread:,} unread, driver {driver.state}"
    moments = f"{_moment(found.watermark)}, newest event {_moment(found.newest_event)}, {behind} behind it"
    lines = [
        f"[bold]{found.pipeline}[/]  {_word(found.verdict)}  {stream}",
        f"watermark  {_word(found.watermark_verdict)}  {moments}",
        f"late share  {share(found.late_share)} of the newest {found.late_epochs:,} epochs",
    ]
    if driver.error:
        lines.append(f"[red]error[/]  {escape(visible(driver.error))}")
    lines += [f"[yellow]see[/]  docs/runbooks/{one.runbook}.md: {one.because}" for one in found.advice]
    return lines


def _word(verdict: str) -> str:
    return f"[bold {_STYLES.get(verdict, 'red')}]{verdict}[/]"


def _moment(micros: int | None) -> str:
    return "none" if micros is None else f"{datetime.fromtimestamp(micros / 1e6, tz=UTC):%Y-%m-%d %H:%M:%S}"


def register(app: typer.Typer) -> None:
    """Add this room's commands."""
    app.command()(watch)
