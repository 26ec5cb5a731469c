"""Commands on lateness: `cutover advise P` and `cutover lateness P`.

`advise` shows which settings would have been right, from the log and its epochs. `lateness` shows how late records are,
from which producers, and what share would be late at real speed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from cutover.cli.definitions import load_command_definition
from cutover.clock import SystemClock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.lake.control import versions
from cutover.output.console import Line, Output, make_table, show_bar
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.advisor import advice_text
from cutover.reconcile.result import text
from cutover.reconcile.result.lateness_text import describe_shares, describe_source, format_real_late, name_segment
from cutover.reconcile.result.measurements import LatenessQuantiles, LogLateness
from cutover.reconcile.result.parts import Advice, NamedSetting, Prediction, ProvenSetting
from cutover.settings import load_settings
from cutover.timestamps import format_micros, parse_duration, to_micros

if TYPE_CHECKING:
    from cutover.reconcile.advisor.gather import GatheredDelays
    from cutover.reconcile.advisor.predict import Grid


TRIED = "tried"
LISTED = 20
"""Partitions and keys that are late by more than their share, which are listed; others are counted."""


def advise(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    grid: Annotated[bool, typer.Option("--grid", help="All tried settings, not only the recommended ones.")] = False,
    setting: Annotated[
        list[str] | None, typer.Option("--setting", help="A further one, such as `30 minutes/2 hours`.")
    ] = None,
    prove: Annotated[
        bool, typer.Option("--prove", help="Run the streaming path under each setting, without serving it: 1 if wrong.")
    ] = False,
    page: Annotated[
        Path | None, typer.Option("--page", help="With --prove: a page of Markdown that the table goes into.")
    ] = None,
) -> Output:
    """Say what out-of-orderness and allowed lateness would have come to on this log. Writes no table that serves."""
    # numpy, DuckDB and Arrow: not for `--help`, nor for what is refused before anything is read
    from cutover.reconcile import journal_rows
    from cutover.reconcile.advisor.gather import gather_delays
    from cutover.reconcile.advisor.predict import choose_settings, make_grid, predict

    further = [_parse_setting(text) for text in setting or ()]  # refused before anything is read
    settings, clock = load_settings(), SystemClock()
    definition = load_command_definition(settings, pipeline)
    lake = PipelineLake(settings, definition)
    _reject_followed_job(definition, "advise")
    gathered_delays = gather_delays(lake)
    lateness = definition.lateness
    current = (lateness.out_of_orderness_micros, lateness.allowed_micros)
    tried_settings = (
        NamedSetting(name=TRIED, prediction=predict(gathered_delays.delays, *further_setting))
        for further_setting in further
    )
    named_settings = (*choose_settings(gathered_delays.delays), *tried_settings)
    proven = _prove(lake, gathered_delays, named_settings) if prove else ()
    at = format_micros(to_micros(clock.now())) or ""
    advice = _make_advice(
        definition, gathered_delays, predict(gathered_delays.delays, *current), named_settings, proven, at
    )
    journal_rows.record_advice(settings, advice, clock)
    if proven and page is not None:
        from cutover.reconcile.advisor.prove import write_proof_table

        write_proof_table(page, advice)
    every = make_grid(gathered_delays.delays, current)
    grid_fields = {"grid": [asdict(prediction) for prediction in every.predictions], "grid_tried": every.setting_count}
    return Output(
        document=_describe(advice) | grid_fields,
        lines=_list_lines(advice, every if grid else None, versions.read_next_version_number(lake)),
        exit_code=int(any(not claim.holds for claim in proven)),
    )


def _reject_followed_job(definition: Pipeline, command: str) -> None:
    """Reject a pipeline that follows a job: by which watermark its records are late is in its checkpoint."""
    if definition.stream is not None:
        msg = (
            f"`cutover {command}`: expected a pipeline of Cutover's own streaming path, `{definition.name}` follows a "
        )
        msg += "job, whose watermarks are its own.\nHint: the report shows how late its late records were."
        raise DefinitionError(msg)


def _make_advice(
    pipeline: Pipeline,
    gathered_delays: "GatheredDelays",
    in_force: Prediction,
    named_settings: tuple[NamedSetting, ...],
    proven: tuple[ProvenSetting, ...],
    at: str,
) -> Advice:
    return Advice(
        pipeline=pipeline.name,
        at=at,
        result_fingerprint=result_fingerprint(pipeline),
        version=gathered_delays.version,
        epoch=gathered_delays.newest_epoch,
        epochs=gathered_delays.epochs,
        records=gathered_delays.records,
        in_force=in_force,
        settings=named_settings,
        proven=proven,
        proven_at=at if proven else None,
        partitions=gathered_delays.partitions[:LISTED],
        keys=gathered_delays.keys[:LISTED],
        partitions_over=len(gathered_delays.partitions),
        keys_over=len(gathered_delays.keys),
        is_replay=gathered_delays.read_speed.is_replay,
        read_speed=gathered_delays.read_speed.speed,
        log_pace=gathered_delays.log_pace,
    )


def _describe(advice: Advice) -> dict[str, object]:
    return {
        "pipeline": advice.pipeline,
        "epochs": advice.epochs,
        "records": advice.records,
        "current": asdict(advice.in_force),
        "advised": {setting.name: asdict(setting.prediction) for setting in advice.settings if setting.name != TRIED},
        "tried": [asdict(setting.prediction) for setting in advice.settings if setting.name == TRIED],
        "proven": [asdict(claim) | {"holds": claim.holds, "wrong": claim.wrong} for claim in advice.proven],
        "partitions": [asdict(partition) for partition in advice.partitions],
        "keys": [asdict(key) for key in advice.keys],
        "partitions_over": advice.partitions_over,
        "keys_over": advice.keys_over,
        "is_replay": advice.is_replay,
        "read_speed": advice.read_speed,
        "log_pace": advice.log_pace,
    }


def _parse_setting(words: str) -> tuple[int, int]:
    lengths = words.split("/")
    if len(lengths) != 2:  # noqa: PLR2004 -- two lengths
        msg = f"--setting: expected OUT_OF_ORDERNESS/ALLOWED, such as `30 minutes/2 hours`, got `{words[:80]}`."
        raise DefinitionError(msg)
    out_of_orderness, allowed = (parse_duration(length, of="--setting") for length in lengths)
    return out_of_orderness, allowed


def _prove(
    lake: PipelineLake, gathered_delays: "GatheredDelays", named_settings: Sequence[NamedSetting]
) -> tuple[ProvenSetting, ...]:
    from cutover.reconcile.advisor.prove import prove_settings

    with show_bar("Running the streaming path") as update:

        def report_progress(setting: str, completed: int, of: int) -> None:
            update(completed, of, f"Running the streaming path, {setting}")

        return prove_settings(lake, gathered_delays.newest_epoch, named_settings, report_progress)


def _list_lines(advice: Advice, grid: "Grid | None", following: int) -> Iterator[Line]:
    read = f"{text.count_noun(advice.records, 'record')} in {text.count_noun(advice.epochs, 'epoch')}"
    yield f"{advice.pipeline}: {read}. On time: when the watermark passes the end of a window."
    yield make_table(advice_text.HEADS, map(advice_text.setting_cells, advice_text.list_named_settings(advice)))
    for kind, culprits in {"partition": advice.partitions, "key": advice.keys}.items():
        for culprit in culprits:
            yield f"late {kind}  {advice_text.describe_culprit(culprit)}"
    yield from advice_text.list_unlisted(advice)
    yield from advice_text.list_explanations(advice)
    speed = advice_text.describe_speed(advice)
    if speed is not None:
        yield speed
    if grid is not None:
        rows = advice_text.list_distinct_rows(grid.predictions, advice.in_force)
        yield make_table(advice_text.HEADS, rows)
        outcomes = text.count_noun(len({row[3:] for row in rows}), "outcome")
        tried = f"{grid.setting_count:,} settings were tried"
        yield f"{tried} and have {outcomes} as shown: of equal ones the shortest is listed."
    proof = advice_text.describe_proof(advice)
    if proof is not None:
        yield make_table(advice_text.PROOF_HEADS, advice_text.list_proof_rows(advice))
        yield proof
    yield f"{advice_text.describe_advice(advice)} Next: {name_next(advice, following)}"


def name_next(advice: Advice, following: int) -> str:
    """Name the next step after advice.

    Args:
        advice: The advice.
        following: Number of the version that a replay would create.
    """
    if any(not claim.holds for claim in advice.proven):
        return f"`cutover noise {advice.pipeline}`; trust no advice before this is clear."
    if not advice.is_conclusive:
        return f"`cutover stream {advice.pipeline}` reads new records as they arrive; then advise again."
    if advice_text.is_in_force(advice):
        real = advice.in_force.real
        if real is not None and real.late:
            return f"`cutover lateness {advice.pipeline}` shows how late records are at real speed."
        return "nothing to change, the definition has this setting."
    replay = f"`cutover replay {advice.pipeline} --into {following}`"
    return f"put it into the definition; {replay} reads the log again under it."


def lateness(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
) -> Output:
    """Say how late records reached the log, by partition and value of the key. Kept for the next report."""
    from cutover.reconcile import journal_rows
    from cutover.reconcile.advisor.log_lateness import measure_log_lateness

    settings, clock = load_settings(), SystemClock()
    definition = load_command_definition(settings, pipeline)
    _reject_followed_job(definition, "lateness")
    log_lateness = measure_log_lateness(PipelineLake(settings, definition), clock)
    journal_rows.record_lateness(settings, log_lateness, clock)
    shares = {"real_share": log_lateness.shares.real_share, "read_share": log_lateness.shares.read_share}
    fields = asdict(log_lateness)
    return Output(
        document=fields | {"shares": fields["shares"] | shares},
        lines=_list_lateness_lines(log_lateness, has_ids=definition.source.record_id is not None),
    )


LEGEND = (
    "Late at real speed: had each record been read when it was appended, by log timestamps. Late as read: by the epochs"
    " that read it."
)


def _list_lateness_lines(log_lateness: LogLateness, *, has_ids: bool) -> Iterator[Line]:
    read = f"{text.count_noun(log_lateness.records, 'record')} in {text.count_noun(log_lateness.epochs, 'epoch')}"
    yield f"{log_lateness.pipeline}: {read}. Lateness: behind the event time reached before it."
    yield _tabulate(log_lateness)
    yield LEGEND
    yield describe_shares(log_lateness.shares)
    for source in log_lateness.sources:
        yield f"late alone  {describe_source(source)}"
    for note in log_lateness.notes:
        yield f"note  {note}"
    advice = f"`cutover advise {log_lateness.pipeline}` says what to wait for."
    if has_ids:
        advice = "choose `lateness` by these lengths; advice cannot be given on a source with `record_id`."
    yield f"Next: {advice}"


def _tabulate(log_lateness: LogLateness) -> Table:
    columns = ("records", "half within", "90 %", "99 %", "99.9 %", "most", "late at real speed", "late as read")
    return make_table(("of", *columns), _list_rows(log_lateness), right=columns, no_wrap=("of",))


def _list_rows(log_lateness: LogLateness) -> Iterator[tuple[str, ...]]:
    shares = log_lateness.shares
    if log_lateness.lateness is not None:
        late = (format_real_late(shares, shares.at_real_speed), f"{shares.as_read:,}")
        yield "all", f"{log_lateness.records:,}", *_lengths(log_lateness.lateness), *late
    for segment in log_lateness.segments:
        late = (format_real_late(shares, segment.late), f"{segment.late_as_read:,}")
        yield name_segment(segment), f"{segment.records:,}", *_lengths(segment.lateness), *late


def _lengths(of: LatenessQuantiles) -> tuple[str, ...]:
    return tuple(text.duration(seconds) for seconds in (of.p50, of.p90, of.p99, of.p999, of.largest))


COMMANDS = {
    "advise": advise,
    "lateness": lateness,
}
