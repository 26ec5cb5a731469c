"""`cutover differences P`: the rows that nothing explains and that no later comparison judged away."""

import json
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from cutover.definition.loading import catalogue
from cutover.reconcile.judgement import history
from cutover.reconcile.judgement.lifecycle import BEYOND, OpenDifference
from cutover.reconcile.result import text
from cutover.reconcile.result.codec import encode
from cutover.settings import load_settings


def differences(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    most: Annotated[int, typer.Option("--most", min=1, help="How many are shown; JSON has all.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """List the open differences, oldest first: 0 none is open, 1 some are, 2 the history cannot be read."""
    settings = load_settings()
    opened = history.open_differences(settings, catalogue.get(settings, pipeline))
    found = sorted(opened.values(), key=lambda one: (one.first_seen, one.window_start, one.key))
    if as_json:
        sys.stdout.write(json.dumps([_object(one) for one in found], allow_nan=False) + "\n")
    else:
        _print(Console(highlight=False), pipeline, found, most)
    raise typer.Exit(1 if found else 0)


def _object(one: OpenDifference) -> dict[str, object]:
    found: dict[str, object] = encode(one)
    return found | {"key": json.loads(one.key)}


def _print(console: Console, pipeline: str, found: list[OpenDifference], most: int) -> None:
    if not found:
        console.print(text.message_text(f"No difference of {pipeline} is open: each was explained or judged away."))
        return
    table = Table("window", "key", "row", "first seen (UTC)", "last seen", "runs", box=None, pad_edge=False)
    for one in found[:most]:
        key = "all that the list had no room for" if one.kind == BEYOND else text.key_text(json.loads(one.key))
        seen = (f"{one.first_seen:%Y-%m-%d %H:%M}", f"{one.last_seen:%Y-%m-%d %H:%M}", f"{one.runs:,}")
        table.add_row(text.when(one.window_start), text.message_text(key), one.kind.replace("_", " "), *seen)
    console.print(table)
    rest = f", the oldest {most:,} shown" if len(found) > most else ""
    console.print(text.message_text(f"{text.count_noun(len(found), 'difference')} of {pipeline} open{rest}."))
    first, values = found[0], json.loads(found[0].key).values()
    if first.kind != BEYOND:
        console.print(text.message_text(f"Next: `cutover explain {pipeline} {first.window_start} {text.key(values)}`."))


COMMANDS = {"differences": differences}
