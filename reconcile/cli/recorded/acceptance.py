"""`cutover accept` and `cutover resolve`: what a person says of differences that nothing explains."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.console import Console

from cutover.cli.definitions import find_definition
from cutover.clock import SystemClock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.loading import acceptance_files, catalogue
from cutover.definition.loading.key_text import format_values, parse_key
from cutover.definition.model.acceptance import MAX_ACCEPTED_ROWS, AcceptanceRule
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.ranges import parse_range_end
from cutover.errors import DefinitionError
from cutover.reconcile.cli import arguments
from cutover.reconcile.result import text
from cutover.reconcile.result.finding import Difference
from cutover.reconcile.verdict import acceptance, history, lifecycle
from cutover.reconcile.verdict.lifecycle import BEYOND, OpenDifference
from cutover.settings import Settings, load_settings

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
    every: Annotated[bool, typer.Option("--all", help="Windows and keys of any sort: asked for by name.")] = False,
) -> None:
    """Write a rule that accepts differences: a file beside the definitions, to be reviewed and committed."""
    settings = load_settings()
    found = catalogue.get(settings, pipeline)
    now = SystemClock().now()
    until = arguments.moment(expires, "--expires")
    if not now < until <= now + LONGEST:
        msg = (
            f"`--expires`: expected a time from now on, at most {LONGEST.days} days ahead, got {until:%Y-%m-%d %H:%M}."
        )
        raise DefinitionError(msg)
    start = None if window is None else parse_range_end(window, found.window, of="`--window`")
    end = None if window_to is None else parse_range_end(window_to, found.window, of="`--window-to`")
    rule = _make_rule(
        reason=reason,
        owner=owner,
        expires=until,
        max_rows=MAX_ACCEPTED_ROWS if max_rows is None else max_rows,
        max_volume=dict(map(_parse_volume, max_volume or [])),
        windows_from=start,
        windows_to=start + _EVERY_MOMENT if start is not None and end is None else end,
        keys=[format_values(parse_key(one, found.key)) for one in key or []],
        kinds=kind or [],
        measures=measure or [],
        all=every,
    )
    acceptance_files.refuse_unfit(rule, found)
    cells = _find_matching(settings, found, rule)
    if max_rows is None:
        rule = rule.model_copy(update={"max_rows": _check_count(found, len(cells))})
    acceptance_files.parse(acceptance_files.format_rule(rule), found)
    rules = acceptance_files.load(settings, found).rules
    path = acceptance_files.write(settings, found, name or _make_name(reason, now), rule)
    console = Console(highlight=False, soft_wrap=True)
    console.print(text.message_text(f"Wrote {path}: {text.count_noun(len(cells), 'open difference')} fit it."))
    for said in _describe_others({one: rule for one, rule in rules.items() if f"{one}.toml" < path.name}, cells, now):
        console.print(text.message_text(said))
    console.print(text.message_text(f"Next: commit it; `cutover reconcile {pipeline}` takes it into account."))


def _make_rule(**fields: object) -> AcceptanceRule:
    try:
        return AcceptanceRule.model_validate({name: value for name, value in fields.items() if value not in ([], {})})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        option = "".join(f"`--{str(part).replace('_', '-')}`: " for part in first["loc"][:1])
        said = first["msg"].removeprefix("Value error, ")
        said = said.replace("`keys`", "`--key`").replace("`all = true`", "`--all`")
        msg = f"Rule of acceptance: {option}{said}."
        raise DefinitionError(msg) from None


def _parse_volume(given: str) -> tuple[str, float]:
    measure, _, most = given.partition("=")
    try:
        return measure.strip(), float(most)
    except ValueError:
        msg = f"`--max-volume`: expected a measure and a number such as `amount=100`, got `{given[:80]}`."
        raise DefinitionError(msg) from None


def _find_matching(settings: Settings, pipeline: Pipeline, rule: AcceptanceRule) -> list[Difference]:
    """Return the differences that are known now and fit a rule, whatever they differ in."""
    opened = history.open_differences(settings, pipeline).values()
    cells = [_as_cell(one, pipeline) for one in opened if one.kind != BEYOND]
    return [cell for cell in cells if _matches(rule, cell)]


def _matches(rule: AcceptanceRule, cell: Difference) -> bool:
    return acceptance.fits(rule.model_copy(update={"measures": []}), [cell])


def _describe_others(others: Mapping[str, AcceptanceRule], cells: Sequence[Difference], now: datetime) -> Iterator[str]:
    """Yield a sentence for each rule that comes before a new one by name, and takes rows of its before it."""
    for name, rule in others.items():
        count = sum(_matches(rule, cell) for cell in cells)
        if count:
            expired = ", and has expired" if rule.is_expired(now) else ""
            said = f"Rule `{name}` comes first by name for {count:,} of them{expired}: they stay with it."
            yield f"{said} Remove its file, or give this one a name that comes before it."


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
    got = "none" if not count else f"{count:,}"
    of = f"of `{pipeline.name}` that fit it"
    msg = f"Rule of acceptance: expected 1 to {MAX_ACCEPTED_ROWS} open differences {of}, got {got}."
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
    why: Annotated[str, typer.Option("--why", help="What was done about it; it is kept in the history.")],
) -> None:
    """Take a difference off the list; a comparison that finds it again brings it back, and no gate is opened by it."""
    settings = load_settings()
    definition = find_definition(settings, pipeline)
    opened = history.open_differences(settings, definition)
    wanted = (parse_range_end(window, definition.window, of="WINDOW"), format_values(parse_key(key, definition.key)))
    one = next((one for one in opened.values() if _place_of(one, definition) == wanted), None)
    if one is None:
        msg = f"No difference of `{pipeline}` is known in window {text.when(wanted[0].isoformat())}, key {wanted[1]}."
        raise DefinitionError(msg + f"\nHint: `cutover differences {pipeline}` lists them.")
    lifecycle.close(settings, pipeline, result_fingerprint(definition), one, why, SystemClock().now())
    said = f"Window {text.when(one.window_start)}, key {wanted[1]} of {pipeline}: off the list."
    again = f"Next: `cutover reconcile {pipeline}` says whether it is gone; a run that finds it brings it back."
    Console(highlight=False, soft_wrap=True).print(text.message_text(f"{said} {again}"))


def _place_of(open_difference: OpenDifference, pipeline: Pipeline) -> tuple[datetime | None, str]:
    return text.moment(open_difference.window_start), format_values(
        lifecycle.read_key(open_difference, pipeline.key).values()
    )


COMMANDS = {"accept": accept, "resolve": resolve}
