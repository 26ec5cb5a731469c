"""`cutover repair`: recompute windows, review the changes, publish or undo them."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cutover.cli.definitions import load_command_definition
from cutover.clock import SystemClock
from cutover.counts import count_clause, count_noun
from cutover.definition.loading import catalogue
from cutover.definition.loading.key_text import format_columns
from cutover.definition.model.batch_job import describe_job_table, find_batch_job
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.window_fn import parse_range_end
from cutover.errors import DefinitionError
from cutover.lake.registered_functions import find_job_repair
from cutover.output.cells import visible
from cutover.output.console import Line, Output, Verbatim, make_table, show_spinner
from cutover.pipeline_lake import PipelineLake
from cutover.settings import load_settings
from cutover.timestamps import to_micros

if TYPE_CHECKING:
    import pyarrow as pa

    from cutover.batch.repair.repair import Drafted
    from cutover.lake.batch_runs import BatchRun

SHOWN = 20  # rows that would change
_UNWRAPPED = ("window (UTC)", "change", "by")
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
    undo: Annotated[bool, typer.Option("--undo", help="Undo a published repair, or discard a draft.")] = False,
    repair_id: Annotated[str | None, typer.Option("--id", help="Of a draft or a repair, or how it begins.")] = None,
    job: Annotated[
        str | None, typer.Option("--job", help="Draft SQL for the table of your own `streaming` or `batch` job.")
    ] = None,
    reason: Annotated[str, typer.Option("--why", help="Kept with the repair.")] = "",
) -> Iterator[Output]:
    """Recompute some windows, show what would change (a dry run), `--publish` it, `--undo` it.

    With `--job`, print SQL that would correct the table of a job of your own; it is never run.

    0: nothing would change, or it is done; 1: rows would change; 2: rejected, nothing was changed.
    """
    settings = load_settings()
    computes = bool(window) or dirty or publish or job is not None
    definition = catalogue.get(settings, pipeline) if computes else load_command_definition(settings, pipeline)
    starts = window or []
    _check_options(pipeline, starts, dirty=dirty, undo=undo, publish=publish, repair_id=repair_id, cut=cut)
    if job is not None and (starts or dirty or undo or publish or repair_id is not None):
        msg = "Repair: expected `--job` alone, got it with options for Cutover's own tables."
        raise DefinitionError(msg + f"\nHint: `cutover repair {pipeline} --job batch` only prints SQL.")
    if len(reason) > 500:  # noqa: PLR2004 -- as elsewhere
        msg = f"`--why`: expected at most 500 characters, got {len(reason)}."
        raise DefinitionError(msg)
    lake = PipelineLake(settings, definition)
    if job is not None:
        yield _draft_job_repair(lake, job)
    elif undo:
        yield _undo(lake, repair_id, reason)
    elif starts or dirty:
        drafted = _make_draft(lake, starts, cut)
        differs = drafted.draft is not None and drafted.draft.differing > 0
        yield Output(
            document=None if publish else _describe(definition, drafted),
            lines=_list_draft_lines(definition, drafted, dirty=dirty),
            exit_code=1 if differs and not publish else 0,
        )
        if publish and differs and drafted.draft is not None:
            yield _publish(lake, drafted.draft.repair_id, reason)
        elif publish:
            yield Output(document={"published": None}, lines=["Nothing was published."])
    elif publish:
        yield _publish(lake, repair_id, reason)
    elif repair_id is not None:
        yield _show_repair(lake, repair_id)
    else:
        yield _list_repairs(lake)


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
        msg = "Repair: expected one of `--window`, `--dirty` and `--undo`, and no `--publish` with `--undo`."
        raise DefinitionError(msg + f"\nHint: `cutover repair {pipeline} --window START` only shows what would change.")
    if repair_id is not None and (starts or dirty):
        msg = "Repair: expected `--id` of an existing draft, or windows of a new one, got both."
        raise DefinitionError(msg)
    if repair_id == "":  # an unset variable of a script: every id has this prefix
        msg = f"`--id`: expected how an id begins, got none.\nHint: `cutover repair {pipeline}` lists them."
        raise DefinitionError(msg)
    if cut is not None and not (starts or dirty):
        msg = "`--cut`: expected `--window` or `--dirty` with it: it is the epoch up to which these are computed."
        raise DefinitionError(msg)


def _make_draft(lake: PipelineLake, starts: Sequence[str], cut: int | None) -> "Drafted":
    pipeline = lake.pipeline
    from cutover.batch.repair.checks import require_windows
    from cutover.batch.repair.repair import make_draft

    micros = [to_micros(parse_range_end(text, pipeline.window, of="`--window`")) for text in starts]
    windows = require_windows(pipeline.window, micros, pipeline.name)
    with show_spinner(f"{pipeline.name}: computing the windows from the log"):
        return make_draft(lake, windows, epoch=cut, clock=_CLOCK)


def _describe(pipeline: Pipeline, drafted: "Drafted") -> dict[str, Any]:
    from cutover.batch.repair.draft import to_fields

    if drafted.draft is None or drafted.effect is None:
        return {"id": None, "would_change": 0, "windows": [], "changes": []}
    rows = _changes(pipeline, drafted.effect.changes)
    return {**to_fields(drafted.draft), "changes": rows[:SHOWN], "changes_left_out": max(0, len(rows) - SHOWN)}


def _changes(pipeline: Pipeline, changed_rows: "pa.Table") -> list[dict[str, Any]]:
    """List the rows that would change: window, key, kind of change, and measures before and after."""
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


def _list_draft_lines(pipeline: Pipeline, drafted: "Drafted", *, dirty: bool) -> Iterator[Line]:
    if drafted.draft is None or drafted.effect is None:
        yield f"Nothing to repair: no closed window of {pipeline.name} is dirty."
        return
    draft, rows = drafted.draft, _changes(pipeline, drafted.effect.changes)
    if rows:
        yield make_table(
            ("window (UTC)", "key", "change", "measure", "served", "repaired"),
            (
                (
                    _short(row["window_start"]),
                    format_columns(row["key"]),
                    row["change"],
                    name,
                    _text(pair["served"]),
                    _text(pair["repaired"]),
                )
                for row in rows[:SHOWN]
                for name, pair in row["measures"].items()
            ),
            no_wrap=_UNWRAPPED,
        )
    if len(rows) > SHOWN:
        yield f"and {count_noun(len(rows) - SHOWN, 'more row')}"
    for side, counts in draft.counts.items():
        counts_text = ", ".join(f"{count:,} {kind}" for kind, count in counts.items()) or "no rows"
        yield f"Compared with {'what is served' if side == 'served' else side}: {counts_text}."
    yield from list_unwritten_tables(pipeline)
    plural = "" if len(draft.windows) == 1 else "s"
    windows = f"{len(draft.windows):,} " + (f"range{plural} of dirty windows" if dirty else f"window{plural}")
    head = f"{windows} of {pipeline.name} computed at epoch {draft.run.epoch}"
    if draft.differing:
        command = f"`cutover repair {pipeline.name} --publish --id {draft.repair_id[:8]}`"
        yield f"{head}: {count_noun(draft.differing, 'row')} would change. Nothing is changed yet. Next: {command}."
    else:
        yield f"{head}: nothing would change."


def _publish(lake: PipelineLake, id_prefix: str | None, reason: str) -> Output:
    from cutover.batch.repair.repair import publish_draft

    published, was_before = publish_draft(lake, id_prefix, reason=reason, clock=_CLOCK)
    message = f"Repair {published.run_id[:8]} of {lake.name} "
    message += (
        f"was published at {published.finished}; nothing was done."
        if was_before
        else f"is published: {_effect(published)}."
    )
    message += f" Next: `cutover reconcile {lake.name}`; "
    message += f"`cutover repair {lake.name} --undo --id {published.run_id[:8]}` undoes it."
    document = {"published": published.run_id, "was_before": was_before, "run": json.loads(published.to_json())}
    return Output(document=document, lines=[message, *list_unwritten_tables(lake.pipeline)])


def _draft_job_repair(lake: PipelineLake, job: str) -> Output:
    """Show the SQL that would correct the table of a job; all other lines are comments, so that a file can hold it."""
    with show_spinner(f"{lake.name}: comparing the table of the {job} job"):
        drafted = find_job_repair()(lake, job)
    counts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(drafted.rows.items()))
    heading = f"{lake.name}: table of the {drafted.job} job, {drafted.table}, at {drafted.state}"
    comments = [f"{heading}: {counts or 'no row differs'}.", *drafted.doubts]
    if drafted.statements:
        comments += [f"Cutover has written nothing. {drafted.next_step.replace(' P`', f' {lake.name}`')}"]
    lines = [*(f"-- {visible(comment)}" for comment in comments), *(f"{text};" for text in drafted.statements)]
    text = "".join(f"{line}\n" for line in lines)
    return Output(document=asdict(drafted), lines=[Verbatim(text)], exit_code=1 if drafted.rows else 0)


def list_unwritten_tables(pipeline: Pipeline) -> list[str]:
    """List in one sentence the tables of the team's own jobs, which no repair writes; none without such jobs."""
    places = {} if pipeline.stream is None else {"streaming": pipeline.stream.table.path}
    job = find_batch_job(pipeline.batch)
    places |= {} if job is None else {"batch": describe_job_table(job.table)}
    if not places:
        return []
    commands = " and ".join(f"`cutover repair {pipeline.name} --job {side}`" for side in places)
    unwritten = f"Not written: {' and '.join(places.values())}, of your own jobs."
    return [f"{unwritten} Run the job again for these windows, or let {commands} draft SQL."]


def _effect(run: "BatchRun") -> str:
    counts = {} if run.repair is None else run.repair.counts
    counts_text = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
    return f"batch table version {run.batch_version}, rows served: {counts_text or 'none'}"


def _undo(lake: PipelineLake, id_prefix: str | None, reason: str) -> Output:
    from cutover.batch.repair.repair import undo_repair

    undone, repair_id, was_before = undo_repair(lake, id_prefix, reason=reason, clock=_CLOCK)
    name, shown_id = lake.name, repair_id[:8]
    document = {"undone": repair_id, "was_before": was_before and undone is not None, "run": None}
    if undone is None:
        return Output(document=document, lines=[f"Draft {shown_id} of {name} is discarded."])
    if was_before:
        message = f"Repair {shown_id} of {name} was undone at {undone.finished}; nothing was done."
        message += f" Next: `cutover repair {name}` lists those before it; `--undo --id` names one."
    else:
        stale = " The next batch run computes what is dirty without it." if undone.stale else ""
        message = f"Repair {shown_id} of {name} is undone: batch table version {undone.batch_version}.{stale}"
    return Output(document=document | {"run": json.loads(undone.to_json())}, lines=[message])


def _show_repair(lake: PipelineLake, id_prefix: str) -> Output:
    """Show what people were served of the rows that a repair changed, by whom, and from when to when."""
    from cutover.batch.repair.checks import find_by_id
    from cutover.batch.repair.draft import draft_folder, find_waiting, read_draft_rows
    from cutover.batch.repair.repair import list_repairs
    from cutover.lake.batch_runs import read_recorded_runs

    repairs_by_id = {run.run_id: run.repair for run in read_recorded_runs(lake)}
    waiting = find_waiting(lake, repairs_by_id)
    repairs = {repair_key: repair.files for repair_key, repair in repairs_by_id.items() if repair is not None}
    repair_id = find_by_id(lake.pipeline, [*repairs, *waiting.ids], id_prefix, subject="repair or draft")
    files = repairs[repair_id] if repair_id in repairs else waiting.get(repair_id).files
    repair_row = next(row for row in list_repairs(lake) if row["id"] == repair_id)
    table = read_draft_rows(draft_folder(lake, repair_id), files["served"])
    rows = [_describe_served(lake.pipeline, row) for row in table.to_pylist() if row["_change"] != "same"]
    document = {**_to_json(repair_row), "served": rows}
    return Output(document=document, lines=_list_repair_lines(lake.pipeline, repair_id, repair_row, rows))


def _list_repair_lines(
    pipeline: Pipeline, repair_id: str, repair_row: dict[str, object], rows: list[dict[str, Any]]
) -> Iterator[Line]:
    if rows:
        yield make_table(
            ("window (UTC)", "key", "change", "was served", "by", "since (UTC)"),
            (
                (
                    _short(row["window_start"]),
                    format_columns(row["key"]),
                    row["change"],
                    ", ".join(f"{name}={_text(value)}" for name, value in row["measures"].items())
                    if row["served_by"]
                    else "nothing",
                    row["served_by"],
                    _short(row["since"] or ""),
                )
                for row in rows[:SHOWN]
            ),
            no_wrap=_UNWRAPPED,
        )
    if len(rows) > SHOWN:
        yield f"and {count_noun(len(rows) - SHOWN, 'more row')}"
    served_until = (
        "it is a draft: these are still served" if repair_row["state"] == "draft" else f"until {repair_row['at']}"
    )
    undone = f"; undone at {repair_row['undone']}" if repair_row.get("undone") else ""
    differing = count_clause(len(rows), "row", "differs", "differ")
    yield f"Repair {repair_id[:8]} of {pipeline.name}: {differing}, {served_until}{undone}."


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
    from dataclasses import is_dataclass

    return {k: asdict(v) if is_dataclass(v) and not isinstance(v, type) else v for k, v in row.items()}


def _text(value: object) -> str:
    return "null" if value is None else str(value)


def _short(iso: str) -> str:
    return iso.replace("T", " ").removesuffix("Z").removesuffix("+00:00")


def _list_repairs(lake: PipelineLake) -> Output:
    from cutover.batch.repair.repair import list_repairs

    rows = list_repairs(lake)
    table = make_table(
        ("id", "state", "at (UTC)", "epoch"),
        ((str(row["id"])[:8], row["state"], str(row["at"] or "")[:19], row["epoch"]) for row in rows),
    )
    states = [row["state"] for row in rows]
    shown_states = ("draft", "published", "undone", *(["unreadable"] if "unreadable" in states else ()))
    counts_text = ", ".join(f"{states.count(state)} {state}" for state in shown_states)
    totals = f"Repairs of {lake.name}: {counts_text}. Next: `cutover repair {lake.name} --window START`."
    return Output(document=[_to_json(row) for row in rows], lines=[*([table] if rows else []), totals])


COMMANDS = {"repair": repair}
