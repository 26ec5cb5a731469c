"""`cutover differences P`: the rows that nothing explains and that no later comparison judged away, in their states."""

import json
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from cutover.cli.definitions import find_definition
from cutover.definition.loading.key_text import format_columns
from cutover.definition.model.pipeline import Pipeline
from cutover.reconcile.report.tree import explain_line
from cutover.reconcile.result import text
from cutover.reconcile.result.codec import encode
from cutover.reconcile.verdict import history
from cutover.reconcile.verdict.lifecycle import BEYOND, DifferenceState, OpenDifference, read_key
from cutover.settings import load_settings

OPEN = DifferenceState.OPEN
REST = "all that the list had no room for"
"""What stands for the rows of a comparison that are more than its list holds."""


def differences(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    most: Annotated[int, typer.Option("--most", min=1, help="How many are shown; JSON has all.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """List what nothing explains, oldest first: 0 none is open, 1 some are, 2 the history cannot be read."""
    settings = load_settings()
    known = find_definition(settings, pipeline)
    opened = history.open_differences(settings, known)
    found = sorted(opened.values(), key=lambda one: (one.state is not OPEN, one.first_seen, one.window_start, one.key))
    if as_json:
        sys.stdout.write(json.dumps([_object(one) for one in found], allow_nan=False) + "\n")
    else:
        compared = bool(found or history.of_now(settings, known)[0])
        _print(Console(highlight=False), known, found, most, compared=compared)
    raise typer.Exit(1 if any(one.state is OPEN for one in found) else 0)


def _object(one: OpenDifference) -> dict[str, object]:
    found: dict[str, object] = encode(one)
    return found | {"key": json.loads(one.key)}


def _print(console: Console, pipeline: Pipeline, found: list[OpenDifference], most: int, *, compared: bool) -> None:
    if not found:
        console.print(text.message_text(_describe_none(pipeline.name, compared=compared)))
        return
    columns = ("window", "key", "row", "state", "first seen (UTC)", "last seen", "runs")
    table = Table(*columns, box=None, pad_edge=False)
    for one in found[:most]:
        key = REST if one.kind == BEYOND else format_columns(read_key(one, pipeline.key))
        seen = (f"{one.first_seen:%Y-%m-%d %H:%M}", f"{one.last_seen:%Y-%m-%d %H:%M}", f"{one.runs:,}")
        window, state = text.when(one.window_start), text.message_text(describe_state(one))
        table.add_row(window, text.message_text(key), one.kind.replace("_", " "), state, *seen)
    console.print(table)
    rest = f", the oldest {most:,} shown" if len(found) > most else ""
    console.print(text.message_text(f"{count_states(pipeline.name, found)}{rest}."))
    first = found[0]
    if first.kind != BEYOND and first.state is OPEN:
        command = explain_line(pipeline.name, first.window_start, read_key(first, pipeline.key))
        console.print(text.message_text(f"Next: `{command}`."))


def _describe_none(name: str, *, compared: bool) -> str:
    if not compared:
        return f"Nothing of {name} was compared yet. Next: `cutover reconcile {name}`."
    return f"No difference of {name} is open: each was explained, judged away or closed."


def describe_state(one: OpenDifference) -> str:
    """Return the state with the rule that accepts it, and how often the difference came back."""
    rule = f" by {one.rule}" if one.state is DifferenceState.ACCEPTED else ""
    return f"{one.state}{rule}" + (f", came back {one.returned:,} times" if one.returned else "")


def count_states(pipeline: str, found: Iterable[OpenDifference]) -> str:
    """Return how many differences are in each state, and that there are more than a list holds: a sentence's head."""
    every = list(found)
    counted = Counter(one.state for one in every if one.kind != BEYOND)
    parts = [f"{counted[state]:,} {state}" for state in DifferenceState if counted[state] or state is OPEN]
    rest = f", and {REST}" if len(every) > counted.total() else ""
    return f"Differences of {pipeline} without a cause: {', '.join(parts)}{rest}"


COMMANDS = {"differences": differences}
