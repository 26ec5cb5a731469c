"""`cutover repair`: recompute windows, review the changes, publish or undo them."""

import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from cutover.cli.definitions import find_definition
from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.definition.loading.key_text import format_columns
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.ranges import parse_range_end
from cutover.errors import DefinitionError
from cutover.output.markup import literal_text
from cutover.settings import Settings, load_settings
from cutover.timestamps import to_micros

if TYPE_CHECKING:
    import pyarrow as pa

    from cutover.batch.repair.repair import Drafted
    from cutover.lake.batch_runs import BatchRun

SHOWN = 20  # rows that would change
_CLOCK = SystemClock()


def repair(  # noqa: PLR0913 -- the options of a command line
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    window: Annotated[list[str] | None, typer.Option("--window", help="Start of a window (UTC); repeatable.")] = None,
    dirty: Annotated[bool, typer.Option("--dirty", help="All closed windows that records touched since.")] = False,
    cut: Annotated[int | None, typer.Option("--cut", help="Epoch to read up to; the newest if not given.")] = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Publish the draft; else nothing visible changes.")
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Put back what a repair changed, or put a draft away.")] = False,
    repair_id: Annotated[str | None, typer.Option("--id", help="Of a draft or a repair, or how it begins.")] = None,
    why: Annotated[str, typer.Option("--why", help="Kept with the repair.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Recompute some windows, show what would change (a dry run), `--publish` it, `--undo` it.

    0: nothing would change, or it is done; 1: rows would change; 2: refused, nothing was changed.
    """
    settings = load_settings()
    computes = bool(window) or dirty or publish
    definition = catalogue.get(settings, pipeline) if computes else find_definition(settings, pipeline)
    starts = window or []
    _check_options(pipeline, starts, dirty=dirty, undo=undo, publish=publish, repair_id=repair_id, cut=cut)
    if len(why) > 500:  # noqa: PLR2004 -- as elsewhere
        msg = f"`--why`: expected at most 500 characters, got {len(why)}."
        raise DefinitionError(msg)
    if undo:
        _show(as_json, *_take_back(settings, definition, repair_id, why))
    elif starts or dirty:
        drafted = _look(settings, definition, starts, cut)
        if not (as_json and publish):
            _show(
                as_json,
                _describe(definition, drafted),
                lambda console: _print_draft(console, definition, drafted, dirty=dirty),
            )
        differs = drafted.draft is not None and drafted.draft.differing > 0
        if publish and differs and drafted.draft is not None:
            _show(as_json, *_publish(settings, definition, drafted.draft.repair_id, why))
        elif publish:
            _show(as_json, {"published": None}, "Nothing was published.")
        elif differs:
            raise typer.Exit(1)
    elif publish:
        _show(as_json, *_publish(settings, definition, repair_id, why))
    elif repair_id is not None:
        _show_one(settings, definition, repair_id, as_json=as_json)
    else:
        _list(settings, definition, as_json=as_json)


def _check_options(  # noqa: PLR0913 -- the options of a command line
    pipeline: str,
    starts: Sequence[str],
    *,
    dirty: bool,
    undo: bool,
    publish: bool,
    repair_id: str | None,
    cut: int | None,
) -> None:
    names = bool(starts) + dirty + undo
    if names > 1 or (undo and publish):
        msg = "Repair: expected one of `--window`, `--dirty` and `--undo`, and no `--publish` beside `--undo`."
        raise DefinitionError(msg + f"\nHint: `cutover repair {pipeline} --window START` only shows what would change.")
    if repair_id is not None and (starts or dirty):
        msg = "Repair: expected `--id` of a draft that is there, or windows of a new one, got both."
        raise DefinitionError(msg)
    if repair_id == "":  # a script's variable that is not set: every id begins so
        msg = f"`--id`: expected how an id begins, got none.\nHint: `cutover repair {pipeline}` lists them."
        raise DefinitionError(msg)
    if cut is not None and not (starts or dirty):
        msg = "`--cut`: expected `--window` or `--dirty` beside it: it says up to which epoch these are computed."
        raise DefinitionError(msg)


def _look(settings: Settings, pipeline: Pipeline, starts: Sequence[str], cut: int | None) -> "Drafted":
    from cutover.batch.repair.refusals import require_windows
    from cutover.batch.repair.repair import make_draft

    micros = [to_micros(parse_range_end(text, pipeline.window, of="`--window`")) for text in starts]
    windows = require_windows(pipeline.window, micros, pipeline.name)
    with Console(stderr=True).status(f"{pipeline.name}: computing the windows from the log"):
        return make_draft(settings, pipeline, windows, epoch=cut, clock=_CLOCK)


def _describe(pipeline: Pipeline, drafted: "Drafted") -> dict[str, Any]:
    from cutover.batch.repair.draft import to_fields

    if drafted.draft is None or drafted.effect is None:
        return {"id": None, "would_change": 0, "windows": [], "changes": []}
    rows = _changes(pipeline, drafted.effect.changes)
    return {**to_fields(drafted.draft), "changes": rows[:SHOWN], "changes_left_out": max(0, len(rows) - SHOWN)}


def _changes(pipeline: Pipeline, changed_rows: "pa.Table") -> list[dict[str, Any]]:
    """Return each row that would change: window, key, kind of change, and its measures before and after."""
    return [
        {
            "window_start": row["window_start"].isoformat().replace("+00:00", "Z"),
            "key": {name: _plain(row[name]) for name in pipeline.key},
            "change": row["_change"],
            "measures": {
                name: {"served": _plain(row[f"old_{n}"]), "repaired": _plain(row[f"new_{n}"])}
                for n, name in enumerate(pipeline.measures)
                if row["_change"] != "changed" or _plain(row[f"old_{n}"]) != _plain(row[f"new_{n}"])
            },
        }
        for row in changed_rows.to_pylist()
    ]


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    return str(value)


def _print_draft(console: Console, pipeline: Pipeline, drafted: "Drafted", *, dirty: bool) -> None:
    if drafted.draft is None or drafted.effect is None:
        console.print(f"Nothing to repair: no closed window of {pipeline.name} is dirty.")
        return
    draft, rows = drafted.draft, _changes(pipeline, drafted.effect.changes)
    table = _make_table("window (UTC)", "key", "change", "measure", "served", "repaired")
    for row in rows[:SHOWN]:
        place = (_short(row["window_start"]), literal_text(format_columns(row["key"])))
        for name, pair in row["measures"].items():
            values = (literal_text(_text(pair["served"])), literal_text(_text(pair["repaired"])))
            table.add_row(*place, row["change"], literal_text(name), *values)
    if rows:
        console.print(table)
    if len(rows) > SHOWN:
        console.print(f"and {len(rows) - SHOWN:,} more rows")
    for side, counts in draft.counts.items():
        counts_text = ", ".join(f"{count:,} {kind}" for kind, count in counts.items()) or "no rows"
        console.print(f"Beside {'what is served' if side == 'served' else side}: {counts_text}.")
    plural = "" if len(draft.windows) == 1 else "s"
    windows = f"{len(draft.windows):,} " + (f"range{plural} of dirty windows" if dirty else f"window{plural}")
    head = f"{windows} of {pipeline.name} computed at epoch {draft.run.epoch}"
    if draft.differing:
        console.print(
            f"{head}: {draft.differing:,} rows would change. Nothing is changed yet. "
            f"Next: `cutover repair {pipeline.name} --publish --id {draft.repair_id[:8]}`."
        )
    else:
        console.print(f"{head}: nothing would change.")


def _publish(settings: Settings, pipeline: Pipeline, id_prefix: str | None, why: str) -> tuple[dict[str, Any], str]:
    from cutover.batch.repair.repair import publish_draft

    published, was_before = publish_draft(settings, pipeline, id_prefix, why=why, clock=_CLOCK)
    message = f"Repair {published.run_id[:8]} of {pipeline.name} "
    message += (
        f"was published at {published.finished}; nothing was done."
        if was_before
        else f"is published: {_effect(published)}."
    )
    message += f" Next: `cutover reconcile {pipeline.name}`; "
    message += f"`cutover repair {pipeline.name} --undo --id {published.run_id[:8]}` takes it back."
    return {"published": published.run_id, "was_before": was_before, "run": json.loads(published.to_json())}, message


def _effect(run: "BatchRun") -> str:
    counts = {} if run.repair is None else run.repair.counts
    counts_text = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
    return f"batch table version {run.batch_version}, rows served: {counts_text or 'none'}"


def _take_back(settings: Settings, pipeline: Pipeline, id_prefix: str | None, why: str) -> tuple[dict[str, Any], str]:
    from cutover.batch.repair.undo import undo

    undone, repair_id, was_before = undo(settings, pipeline, id_prefix, why=why, clock=_CLOCK)
    if undone is None:
        put_away = {"undone": repair_id, "was_before": False, "run": None}
        return put_away, f"Draft {repair_id[:8]} of {pipeline.name} is put away."
    fields = {"undone": repair_id, "was_before": was_before, "run": json.loads(undone.to_json())}
    if was_before:
        message = f"Repair {repair_id[:8]} of {pipeline.name} was taken back at {undone.finished}; nothing was done."
        return (
            fields,
            message + f" Next: `cutover repair {pipeline.name}` lists those before it; `--undo --id` names one.",
        )
    stale = " The next batch run computes what is dirty without it." if undone.stale else ""
    message = (
        f"Repair {repair_id[:8]} of {pipeline.name} is taken back: batch table version {undone.batch_version}.{stale}"
    )
    return fields, message


def _show_one(settings: Settings, pipeline: Pipeline, id_prefix: str, *, as_json: bool) -> None:
    """Show what people were served of the rows that a repair changed, by whom, and from when to when."""
    from cutover.batch.repair.draft import find_waiting, folder, read_rows
    from cutover.batch.repair.refusals import find_by_id
    from cutover.batch.repair.repair import list_repairs
    from cutover.lake.batch_runs import recorded_runs

    repairs_by_id = {run.run_id: run.repair for run in recorded_runs(settings, pipeline)}
    waiting = find_waiting(settings, pipeline, repairs_by_id)
    repairs = {repair_key: repair.files for repair_key, repair in repairs_by_id.items() if repair is not None}
    repair_id = find_by_id(pipeline, [*repairs, *waiting.ids], id_prefix, subject="repair or draft")
    files = repairs[repair_id] if repair_id in repairs else waiting.get(repair_id).files
    repair_row = next(row for row in list_repairs(settings, pipeline) if row["id"] == repair_id)
    table = read_rows(folder(settings, pipeline, repair_id), files["served"])
    rows = [_describe_served(pipeline, row) for row in table.to_pylist() if row["_change"] != "same"]
    if as_json:
        sys.stdout.write(json.dumps({**_to_json(repair_row), "served": rows}) + "\n")
        return
    console = Console(highlight=False, soft_wrap=True)
    shown = _make_table("window (UTC)", "key", "change", "was served", "by", "since (UTC)")
    for row in rows[:SHOWN]:
        values = ", ".join(f"{name}={_text(value)}" for name, value in row["measures"].items())
        served_text = values if row["served_by"] else "nothing"
        place = (_short(row["window_start"]), literal_text(format_columns(row["key"])), row["change"])
        shown.add_row(*place, literal_text(served_text), row["served_by"] or "", _short(row["since"] or ""))
    if rows:
        console.print(shown)
    if len(rows) > SHOWN:
        console.print(f"and {len(rows) - SHOWN:,} more rows")
    served_until = (
        "it is a draft: this is served still" if repair_row["state"] == "draft" else f"until {repair_row['at']}"
    )
    taken_back = f"; taken back at {repair_row['undone']}" if repair_row.get("undone") else ""
    console.print(f"Repair {repair_id[:8]} of {pipeline.name}: {len(rows):,} rows differ, {served_until}{taken_back}.")


def _describe_served(pipeline: Pipeline, row: dict[str, Any]) -> dict[str, Any]:
    return {
        "window_start": row["window_start"].isoformat().replace("+00:00", "Z"),
        "key": {name: _plain(row[name]) for name in pipeline.key},
        "change": row["_change"],
        "measures": {name: _plain(row[name]) for name in pipeline.measures},
        "served_by": row["_served_by"],
        "since": row["_served_from"],
    }


def _to_json(row: dict[str, object]) -> dict[str, object]:
    from dataclasses import asdict, is_dataclass

    return {k: asdict(v) if is_dataclass(v) and not isinstance(v, type) else v for k, v in row.items()}


def _make_table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in names:
        table.add_column(name, no_wrap=name in {"window (UTC)", "change", "by"}, overflow="fold")
    return table


def _text(value: object) -> str:
    return "null" if value is None else str(value)


def _short(iso: str) -> str:
    return iso.replace("T", " ").removesuffix("Z").removesuffix("+00:00")


def _list(settings: Settings, pipeline: Pipeline, *, as_json: bool) -> None:
    from cutover.batch.repair.repair import list_repairs

    rows = list_repairs(settings, pipeline)
    if as_json:
        sys.stdout.write(json.dumps([_to_json(row) for row in rows]) + "\n")
        return
    console = Console(highlight=False, soft_wrap=True)
    table = Table("id", "state", "at (UTC)", "epoch", box=None, pad_edge=False)
    for row in rows:
        at, epoch = (str("" if row[name] is None else row[name]) for name in ("at", "epoch"))
        table.add_row(str(row["id"])[:8], str(row["state"]), at[:19], epoch)
    if rows:
        console.print(table)
    states = [row["state"] for row in rows]
    shown_states = ("draft", "published", "undone", *(["unreadable"] if "unreadable" in states else ()))
    counts_text = ", ".join(f"{states.count(state)} {state}" for state in shown_states)
    console.print(f"Repairs of {pipeline.name}: {counts_text}. Next: `cutover repair {pipeline.name} --window START`.")


def _show(as_json: bool, content: object, message: str | Callable[[Console], None]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    if as_json:
        sys.stdout.write(json.dumps(content) + "\n")
    elif isinstance(message, str):
        console.print(literal_text(message))
    else:
        message(console)


COMMANDS = {"repair": repair}
