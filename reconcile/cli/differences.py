"""`cutover differences P`, `accept` and `resolve`: rows that nothing explains, and what a person says of them.

The list has the rows that no later comparison judged away, in their states.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated

import typer
from pydantic import ValidationError

from cutover import acceptance_files
from cutover.cli.definitions import load_command_definition
from cutover.clock import SystemClock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.loading import catalogue
from cutover.definition.loading.key_text import format_columns, format_values, parse_key
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.policy import MAX_ACCEPTED_ROWS, AcceptanceRule
from cutover.definition.windows.window_fn import parse_range_end
from cutover.errors import DefinitionError
from cutover.output.console import Line, Output, make_table
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.external import request
from cutover.reconcile.report.steps import explain_line
from cutover.reconcile.result import text
from cutover.reconcile.result.codec import encode_tree
from cutover.reconcile.result.finding import Difference
from cutover.reconcile.verdict import decision, history, lifecycle
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


LONGEST = timedelta(days=366)
_EVERY_MOMENT = timedelta(microseconds=1)

Name = Annotated[str, typer.Argument(help="Name of a pipeline.")]


def accept(  # noqa: PLR0913 -- the fields of a rule
    pipeline: Name,
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why this difference is all right.")],
    owner: Annotated[str, typer.Option("--owner", help="Who answers for it: a person or a team.")],
    expires: Annotated[str, typer.Option("--expires", help="From then on it accepts nothing; a year at most.")],
    window: Annotated[
        str | None, typer.Option("--window", help="Start of a window, or of the first of several.")
    ] = None,
    window_to: Annotated[str | None, typer.Option("--window-to", help="Window starts before this one.")] = None,
    key: Annotated[list[str] | None, typer.Option("--key", help="A key, such as `JFK,AA`; may be repeated.")] = None,
    kind: Annotated[list[str] | None, typer.Option("--kind", help="missing, extra, changed or masked.")] = None,
    measure: Annotated[list[str] | None, typer.Option("--measure", help="A row may differ in these alone.")] = None,
    max_rows: Annotated[int | None, typer.Option("--max-rows", help="As many as are open now, if not said.")] = None,
    max_volume: Annotated[list[str] | None, typer.Option("--max-volume", help="Such as `amount=100`.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Of the rule's file.")] = None,
    any_place: Annotated[bool, typer.Option("--all", help="Windows and keys of any sort.")] = False,
) -> Output:
    """Write a rule that accepts differences: a file next to the definitions, to be reviewed and committed."""
    settings = load_settings()
    definition = catalogue.get(settings, pipeline)
    lake, now = PipelineLake(settings, definition), SystemClock().now()
    expiry = request.parse_moment(expires, "--expires")
    if not now < expiry <= now + LONGEST:
        msg = (
            f"`--expires`: expected a time from now on, at most {LONGEST.days} days ahead, got {expiry:%Y-%m-%d %H:%M}."
        )
        raise DefinitionError(msg)
    start = None if window is None else parse_range_end(window, definition.window, of="`--window`")
    end = None if window_to is None else parse_range_end(window_to, definition.window, of="`--window-to`")
    rule = _make_rule(
        reason=reason,
        owner=owner,
        expires=expiry,
        max_rows=MAX_ACCEPTED_ROWS if max_rows is None else max_rows,
        max_volume=dict(map(_parse_volume, max_volume or [])),
        windows_from=start,
        windows_to=start + _EVERY_MOMENT if start is not None and end is None else end,
        keys=[format_values(parse_key(key_text, definition.key)) for key_text in key or []],
        kinds=kind or [],
        measures=measure or [],
        all=any_place,
    )
    acceptance_files.check_against_pipeline(rule, definition)
    cells = _find_matching(lake, rule)
    if max_rows is None:
        rule = rule.model_copy(update={"max_rows": _check_count(definition, len(cells))})
    acceptance_files.parse_rule(acceptance_files.format_rule(rule), definition)
    rules = acceptance_files.load_acceptance_rules(lake).rules
    path = acceptance_files.write_rule_file(lake, name or _make_name(reason, now), rule)
    earlier_rules = {rule_name: rule for rule_name, rule in rules.items() if f"{rule_name}.toml" < path.name}
    return Output(
        document={"pipeline": pipeline, "file": str(path), "open_differences": len(cells)},
        lines=[
            f"Wrote {path}: {text.count_noun(len(cells), 'open difference')} fit it.",
            *_describe_others(earlier_rules, cells, now),
            f"Next: commit it; `cutover reconcile {pipeline}` takes it into account.",
        ],
    )


def _make_rule(**fields: object) -> AcceptanceRule:
    try:
        return AcceptanceRule.model_validate({name: value for name, value in fields.items() if value not in ([], {})})
    except ValidationError as error:
        first_error = error.errors(include_url=False, include_input=False, include_context=False)[0]
        option = "".join(f"`--{str(part).replace('_', '-')}`: " for part in first_error["loc"][:1])
        message = first_error["msg"].removeprefix("Value error, ")
        message = message.replace("`keys`", "`--key`").replace("`all = true`", "`--all`")
        msg = f"Rule of acceptance: {option}{message}."
        raise DefinitionError(msg) from None


def _parse_volume(text: str) -> tuple[str, float]:
    measure, _, limit = text.partition("=")
    try:
        return measure.strip(), float(limit)
    except ValueError:
        msg = f"`--max-volume`: expected a measure and a number such as `amount=100`, got `{text[:80]}`."
        raise DefinitionError(msg) from None


def _find_matching(lake: PipelineLake, rule: AcceptanceRule) -> list[Difference]:
    """Return the differences that are known now and fit a rule, whatever they differ in."""
    opened = history.read_open_differences(lake).values()
    cells = [_as_cell(difference, lake.pipeline) for difference in opened if difference.kind != BEYOND]
    return [cell for cell in cells if _matches(rule, cell)]


def _matches(rule: AcceptanceRule, cell: Difference) -> bool:
    return decision.fits(rule.model_copy(update={"measures": []}), [cell])


def _describe_others(
    other_rules: Mapping[str, AcceptanceRule], cells: Sequence[Difference], now: datetime
) -> Iterator[str]:
    """Yield a sentence for each rule that comes before a new one by name, and takes rows of its before it."""
    for name, rule in other_rules.items():
        count = sum(_matches(rule, cell) for cell in cells)
        if count:
            expired = ", and has expired" if rule.is_expired(now) else ""
            message = f"Rule `{name}` comes first by name for {count:,} of them{expired}: they stay with it."
            yield f"{message} Remove its file, or give this one a name that comes before it."


def _as_cell(open_difference: OpenDifference, pipeline: Pipeline) -> Difference:
    return Difference(
        window_start=open_difference.window_start,
        key=lifecycle.read_key(open_difference, pipeline.key),
        measure="",
        kind=open_difference.kind,
        streaming=None,
        batch=None,
        difference=None,
        cause="",
    )


def _check_count(pipeline: Pipeline, count: int) -> int:
    if 1 <= count <= MAX_ACCEPTED_ROWS:
        return count
    count_text = "none" if not count else f"{count:,}"
    of = f"of `{pipeline.name}` that fit it"
    msg = f"Rule of acceptance: expected 1 to {MAX_ACCEPTED_ROWS} open differences {of}, got {count_text}."
    raise DefinitionError(
        msg + f"\nHint: `cutover differences {pipeline.name}` lists them; `--max-rows` says a number."
    )


def _make_name(reason: str, now: datetime) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", reason.lower()).strip("-")[:40].strip("-")
    return f"{now:%Y-%m-%d}-{words or 'rule'}"


def resolve(
    pipeline: Name,
    window: Annotated[str, typer.Argument(help="Start of the window, UTC.")],
    key: Annotated[str, typer.Argument(help="Key, such as `JFK,AA`, in any form that is shown.")] = "",
    *,
    reason: Annotated[str, typer.Option("--why", help="What was done about it; it is kept in the history.")],
) -> Output:
    """Take a difference off the list; a comparison that finds it again brings it back, and no gate is opened by it."""
    settings = load_settings()
    definition = load_command_definition(settings, pipeline)
    opened = history.read_open_differences(PipelineLake(settings, definition))
    wanted_place = (
        parse_range_end(window, definition.window, of="WINDOW"),
        format_values(parse_key(key, definition.key)),
    )
    difference = next(
        (difference for difference in opened.values() if _place_of(difference, definition) == wanted_place), None
    )
    if difference is None:
        window_text = text.when(wanted_place[0].isoformat())
        msg = f"No difference of `{pipeline}` is known in window {window_text}, key {wanted_place[1]}."
        raise DefinitionError(msg + f"\nHint: `cutover differences {pipeline}` lists them.")
    lifecycle.close(settings, pipeline, result_fingerprint(definition), difference, reason, SystemClock().now())
    message = f"Window {text.when(difference.window_start)}, key {wanted_place[1]} of {pipeline}: off the list."
    next_step = f"Next: `cutover reconcile {pipeline}` says whether it is gone; a run that finds it brings it back."
    document = {"pipeline": pipeline, "window_start": difference.window_start, "key": wanted_place[1], "closed": True}
    return Output(document=document, lines=[f"{message} {next_step}"])


def _place_of(open_difference: OpenDifference, pipeline: Pipeline) -> tuple[datetime | None, str]:
    return text.parse_iso_time(open_difference.window_start), format_values(
        lifecycle.read_key(open_difference, pipeline.key).values()
    )


COMMANDS = {"differences": differences, "accept": accept, "resolve": resolve}
