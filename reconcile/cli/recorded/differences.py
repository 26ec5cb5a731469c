"""`cutover differences P`: the rows that nothing explains and that no later comparison judged away, in their states."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from cutover.cli.definitions import load_command_definition
from cutover.definition.loading.key_text import format_columns
from cutover.definition.model.pipeline import Pipeline
from cutover.output.console import Line, Output, make_table
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.report.tree import explain_line
from cutover.reconcile.result import text
from cutover.reconcile.result.codec import encode_tree
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
) -> Output:
    """List what nothing explains, oldest first: 0 none is open, 1 some are, 2 the history cannot be read."""
    settings = load_settings()
    definition = load_command_definition(settings, pipeline)
    lake = PipelineLake(settings, definition)
    opened = history.read_open_differences(lake)
    ordered = sorted(
        opened.values(),
        key=lambda difference: (
            difference.state is not OPEN,
            difference.first_seen,
            difference.window_start,
            difference.key,
        ),
    )
    compared = bool(ordered) or any(line.is_comparable for line in history.read_current_lines(lake)[0])
    return Output(
        document=[_object(difference) for difference in ordered],
        lines=_list_lines(definition, ordered, most, compared=compared),
        exit_code=1 if any(difference.state is OPEN for difference in ordered) else 0,
    )


def _object(open_difference: OpenDifference) -> dict[str, object]:
    fields: dict[str, object] = encode_tree(open_difference)
    return fields | {"key": json.loads(open_difference.key)}


def _list_lines(
    pipeline: Pipeline, open_differences: list[OpenDifference], limit: int, *, compared: bool
) -> Iterator[Line]:
    if not open_differences:
        yield _describe_none(pipeline.name, compared=compared)
        return
    yield make_table(
        ("window", "key", "row", "state", "first seen (UTC)", "last seen", "runs"),
        (_make_cells(pipeline, difference) for difference in open_differences[:limit]),
    )
    listed_part = f", the oldest {limit:,} shown" if len(open_differences) > limit else ""
    yield f"{count_states(pipeline.name, open_differences)}{listed_part}."
    oldest = open_differences[0]
    if oldest.kind != BEYOND and oldest.state is OPEN:
        yield f"Next: `{explain_line(pipeline.name, oldest.window_start, read_key(oldest, pipeline.key))}`."


def _make_cells(pipeline: Pipeline, difference: OpenDifference) -> tuple[str, ...]:
    return (
        text.when(difference.window_start),
        REST if difference.kind == BEYOND else format_columns(read_key(difference, pipeline.key)),
        difference.kind.replace("_", " "),
        describe_state(difference),
        f"{difference.first_seen:%Y-%m-%d %H:%M}",
        f"{difference.last_seen:%Y-%m-%d %H:%M}",
        f"{difference.runs:,}",
    )


def _describe_none(name: str, *, compared: bool) -> str:
    if not compared:
        return f"Nothing of {name} was compared yet. Next: `cutover reconcile {name}`."
    return f"No difference of {name} is open."


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
