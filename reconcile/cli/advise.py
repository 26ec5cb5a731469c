"""`cutover advise P`: which settings of lateness would have been right, from the log and its epochs."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.durations import format_duration, parse_duration
from cutover.errors import DefinitionError
from cutover.reconcile.advisor import proof_table
from cutover.reconcile.advisor.gather import Culprit, GatheredDelays, gather
from cutover.reconcile.advisor.predict import NamedSetting, Prediction, choose, make_grid, predict
from cutover.reconcile.advisor.prove import ProvenSetting, prove_settings
from cutover.reconcile.result import text
from cutover.settings import Settings, load_settings

TRIED = "tried"


def advise(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    grid: Annotated[
        bool, typer.Option("--grid", help="All settings that were looked at, not the chosen alone.")
    ] = False,
    setting: Annotated[
        list[str] | None, typer.Option("--setting", help="A further one, such as `30 minutes/2 hours`.")
    ] = None,
    prove: Annotated[
        bool, typer.Option("--prove", help="Run the streaming path under each setting, beside what serves: 1 if wrong.")
    ] = False,
    page: Annotated[
        Path | None, typer.Option("--page", help="With --prove: a page of Markdown that the table goes into.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, with the grid.")] = False,
) -> None:
    """Say what out-of-orderness and allowed lateness would have come to on this log. Writes no table that serves."""
    further = [_parse_setting(one) for one in setting or ()]  # refused before anything is read
    settings = load_settings()
    found = catalogue.get(settings, pipeline)
    gathered = gather(settings, found)
    lateness = found.lateness
    current = (lateness.out_of_orderness_micros, lateness.allowed_micros)
    every, named = make_grid(gathered.delays, current), choose(gathered.delays)
    named = (*named, *(NamedSetting(name=TRIED, prediction=predict(gathered.delays, *one)) for one in further))
    proven = _prove(settings, found, gathered, named) if prove else ()
    if proven and page is not None:
        proof_table.write_page(page, pipeline, proven)
    code = int(any(not one.holds for one in proven))
    if as_json:
        said = _describe(pipeline, gathered, current, named, proven) | {"grid": [asdict(one) for one in every]}
        sys.stdout.write(json.dumps(said, allow_nan=False) + "\n")
        raise typer.Exit(code)
    _print(Console(highlight=False, soft_wrap=True), found, gathered, predict(gathered.delays, *current), named)
    if grid:
        Console(highlight=False).print(_table([("", one) for one in every]))
    if proven:
        _print_proof(pipeline, proven)
    raise typer.Exit(code)


def _describe(
    pipeline: str,
    gathered: GatheredDelays,
    current: tuple[int, int],
    named: Sequence[NamedSetting],
    proven: Sequence[ProvenSetting],
) -> dict[str, object]:
    return {
        "pipeline": pipeline,
        "epochs": gathered.epochs,
        "records": gathered.records,
        "current": asdict(predict(gathered.delays, *current)),
        "advised": {one.name: asdict(one.prediction) for one in named if one.name != TRIED},
        "tried": [asdict(one.prediction) for one in named if one.name == TRIED],
        "proven": [asdict(one) | {"holds": one.holds} for one in proven],
        "partitions": [asdict(one) for one in gathered.partitions],
        "keys": [asdict(one) for one in gathered.keys],
    }


def _print_proof(pipeline: str, proven: Sequence[ProvenSetting]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    table = Table(*proof_table.COLUMNS, box=None, pad_edge=False)
    for row in proof_table.list_rows(proven):
        table.add_row(*row)
    console.print(table)
    console.print(text.message_text(proof_table.describe_proof(pipeline, proven)))


def _parse_setting(words: str) -> tuple[int, int]:
    lengths = words.split("/")
    if len(lengths) != 2:  # noqa: PLR2004 -- two lengths
        msg = f"--setting: expected OUT_OF_ORDERNESS/ALLOWED, such as `30 minutes/2 hours`, got `{words[:80]}`."
        raise DefinitionError(msg)
    out_of_orderness, allowed = (parse_duration(length, of="--setting") for length in lengths)
    return out_of_orderness, allowed


def _prove(
    settings: Settings, pipeline: Pipeline, gathered: GatheredDelays, named: Sequence[NamedSetting]
) -> tuple[ProvenSetting, ...]:
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("Running the streaming path")

        def tell(setting: str, done: int, of: int) -> None:
            shown.update(task, description=f"Running the streaming path, {setting}", completed=done, total=of)

        return prove_settings(settings, pipeline, gathered.newest_epoch, named, tell)


def _print(
    console: Console, pipeline: Pipeline, gathered: GatheredDelays, now: Prediction, named: Sequence[NamedSetting]
) -> None:
    read = f"{text.count_noun(gathered.records, 'record')} in {text.count_noun(gathered.epochs, 'epoch')}"
    console.print(
        text.message_text(f"{pipeline.name}: {read}. On time: when the watermark passes the end of a window.")
    )
    console.print(_table([("in force", now), *((one.name, one.prediction) for one in named)]))
    for kind, culprits in {"partition": gathered.partitions, "key": gathered.keys}.items():
        _print_culprits(console, kind, culprits)
    if not now.late:
        console.print(f"No record of {pipeline.name} was late: a shorter wait is all that could be gained.")
    balanced = next(one.prediction for one in named if one.name == "balanced")
    lengths = (format_duration(balanced.out_of_orderness), format_duration(balanced.allowed))
    words = f"`lateness=Lateness(out_of_orderness={lengths[0]!r}, allowed={lengths[1]!r})`"
    again = f"`cutover replay {pipeline.name}` reads the log again under it"
    console.print(text.message_text(f"Next: {words} in the definition is the balanced setting; {again}."))


def _print_culprits(console: Console, kind: str, culprits: Sequence[Culprit]) -> None:
    for one in culprits:
        shares = f"{text.share(one.late_share)} of the late records, {text.share(one.share)} of all"
        console.print(text.message_text(f"late {kind}  {one.what}: {shares}"))


def _table(rows: Sequence[tuple[str, Prediction]]) -> Table:
    columns = ("", "out-of-orderness", "allowed", "exact on time", "exact in the end", "late records", "rows held")
    table = Table(*columns, box=None, pad_edge=False)
    for name, one in rows:
        shares = (text.share(count / one.windows if one.windows else 0.0) for count in (one.on_time, one.exact))
        numbers = (f"{one.late:,}", f"{one.held:,}")
        table.add_row(name, format_duration(one.out_of_orderness), format_duration(one.allowed), *shares, *numbers)
    return table


COMMANDS = {"advise": advise}
