"""`cutover advise P`: which settings of lateness would have been right, from the log and its epochs."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.durations import MICROSECONDS
from cutover.reconcile.advisor.gather import Culprit, GatheredDelays, gather
from cutover.reconcile.advisor.predict import NamedSetting, Prediction, choose, make_grid, predict
from cutover.reconcile.result import text
from cutover.settings import load_settings


def advise(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    grid: Annotated[
        bool, typer.Option("--grid", help="All settings that were looked at, not the chosen alone.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, with the grid.")] = False,
) -> None:
    """Say what out-of-orderness and allowed lateness would have come to on this log. Reads only."""
    settings = load_settings()
    found = catalogue.get(settings, pipeline)
    gathered = gather(settings, found)
    lateness = found.lateness
    current = (lateness.out_of_orderness_micros, lateness.allowed_micros)
    every, named = make_grid(gathered.delays, current), choose(gathered.delays)
    if as_json:
        said = {
            "pipeline": pipeline,
            "epochs": gathered.epochs,
            "records": gathered.records,
            "current": asdict(predict(gathered.delays, *current)),
            "advised": {one.name: asdict(one.prediction) for one in named},
            "grid": [asdict(one) for one in every],
            "partitions": [asdict(one) for one in gathered.partitions],
            "keys": [asdict(one) for one in gathered.keys],
        }
        sys.stdout.write(json.dumps(said, allow_nan=False) + "\n")
        return
    _print(Console(highlight=False, soft_wrap=True), found, gathered, predict(gathered.delays, *current), named)
    if grid:
        Console(highlight=False).print(_table([("", one) for one in every]))


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
    lengths = (describe(balanced.out_of_orderness), describe(balanced.allowed))
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
        table.add_row(name, describe(one.out_of_orderness), describe(one.allowed), *shares, *numbers)
    return table


UNITS: Mapping[str, int] = dict(sorted(MICROSECONDS.items(), key=lambda unit: -unit[1]))


def describe(micros: int) -> str:
    """Return a length of time as a definition has it, in the largest unit that it is whole in."""
    whole = (unit for unit in UNITS.items() if micros and micros % unit[1] == 0)
    unit, size = next(whole, ("second", MICROSECONDS["second"]))
    count = micros // size
    return f"{count} {unit}{'' if count == 1 else 's'}"


COMMANDS = {"advise": advise}
