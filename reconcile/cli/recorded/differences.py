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
"""Text for the rows of a comparison that its list omits."""


def differences(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    most: Annotated[int, typer.Option("--most", min=1, help="How many are shown; JSON has all.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """List what nothing explains, oldest first: 0 none is open, 1 some are, 2 the history cannot be read."""
    settings = load_settings()
    definition = find_definition(settings, pipeline)
    opened = history.open_differences(settings, definition)
    ordered = sorted(
        opened.values(), key=lambda one: (one.state is not OPEN, one.first_seen, one.window_start, one.key)
    )
    if as_json:
        sys.stdout.write(json.dumps([_object(one) for one in ordered], allow_nan=False) + "\n")
    else:
        compared = bool(ordered or history.of_now(settings, definition)[0])
        _print(Console(highlight=False), definition, ordered, most, compared=compared)
    raise typer.Exit(1 if any(one.state is OPEN for one in ordered) else 0)


def _object(open_difference: OpenDifference) -> dict[str, object]:
    fields: dict[str, object] = encode(open_difference)
    return fields | {"key": json.loads(open_difference.key)}


def _print(
    console: Console, pipeline: Pipeline, open_differences: list[OpenDifference], limit: int, *, compared: bool
) -> None:
    if not open_differences:
        console.print(text.message_text(_describe_none(pipeline.name, compared=compared)))
        return
    columns = ("window", "key", "row", "state", "first seen (UTC)", "last seen", "runs")
    table = Table(*columns, box=None, pad_edge=False)
    for open_difference in open_differences[:limit]:
        key = REST if open_difference.kind == BEYOND else format_columns(read_key(open_difference, pipeline.key))
        first_seen = (
            f"{open_difference.first_seen:%Y-%m-%d %H:%M}",
            f"{open_difference.last_seen:%Y-%m-%d %H:%M}",
            f"{open_difference.runs:,}",
        )
        window, state = text.when(open_difference.window_start), text.message_text(describe_state(open_difference))
        table.add_row(window, text.message_text(key), open_difference.kind.replace("_", " "), state, *first_seen)
    console.print(table)
    listed_part = f", the oldest {limit:,} shown" if len(open_differences) > limit else ""
    console.print(text.message_text(f"{count_states(pipeline.name, open_differences)}{listed_part}."))
    oldest = open_differences[0]
    if oldest.kind != BEYOND and oldest.state is OPEN:
        command = explain_line(pipeline.name, oldest.window_start, read_key(oldest, pipeline.key))
        console.print(text.message_text(f"Next: `{command}`."))


def _describe_none(name: str, *, compared: bool) -> str:
    if not compared:
        return f"Nothing of {name} was compared yet. Next: `cutover reconcile {name}`."
    return f"No difference of {name} is open: each was explained, judged away or closed."


def describe_state(open_difference: OpenDifference) -> str:
    """Return the state with the rule that accepts it, and how often the difference came back."""
    rule = f" by {open_difference.rule}" if open_difference.state is DifferenceState.ACCEPTED else ""
    return f"{open_difference.state}{rule}" + (
        f", came back {open_difference.returned:,} times" if open_difference.returned else ""
    )


def count_states(pipeline: str, open_differences: Iterable[OpenDifference]) -> str:
    """Return how many differences are in each state, and that there are more than a list holds: a sentence's head."""
    all_differences = list(open_differences)
    counts = Counter(difference.state for difference in all_differences if difference.kind != BEYOND)
    parts = [f"{counts[state]:,} {state}" for state in DifferenceState if counts[state] or state is OPEN]
    beyond_text = f", and {REST}" if len(all_differences) > counts.total() else ""
    return f"Differences of {pipeline} without a cause: {', '.join(parts)}{beyond_text}"


COMMANDS = {"differences": differences}
