"""Commands that replace a stream: `cutover replay`, `serve` and `swap`.

`replay` fills another stream and compares it with the serving one, `serve` switches to it. `swap` serves a changed
definition in place of the one that its note names, or swaps back.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated

import typer

from cutover.cli.definitions import load_command_definition
from cutover.clock import Point, Probe, SystemClock
from cutover.counts import choose_form, count_clause, count_noun
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.lake.control import versions
from cutover.output.console import Output, show_bar
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings, load_settings
from cutover.streaming.process import heartbeat
from cutover.streaming.replacement import compare as comparing
from cutover.streaming.replacement import replay as replaying
from cutover.streaming.replacement import swap as swapping
from cutover.streaming.replacement.compare import StreamComparison
from cutover.streaming.replacement.replay import Agreed

Name = Annotated[str, typer.Argument(help="Name of a pipeline.")]


def replay(
    pipeline: Name,
    *,
    into: Annotated[
        int | None, typer.Option("--into", min=0, help="The next version, or a replay to continue.")
    ] = None,
    epoch: Annotated[
        int | None, typer.Option("--from", min=0, help="Begin after this epoch of the serving version.")
    ] = None,
    compare: Annotated[
        int | None, typer.Option("--compare", min=0, help="A version to compare with the one that serves.")
    ] = None,
) -> Output:
    """Read the log into a new version at full speed, or `--compare` that version with the serving one.

    Without an option: into a changed definition, up to an epoch of the one that its `change` names (`cutover swap`).
    The comparison uses the newest common cut: 0 they add up to the same, 1 they differ, 2 not comparable.
    """
    settings = load_settings()
    definition = catalogue.get(settings, pipeline)
    if into is not None and compare is not None:
        msg = "Replay: expected either `--into` or `--compare`, got both."
        raise DefinitionError(msg + f"\nHint: `cutover savepoint {pipeline} list` shows the versions.")
    lake = PipelineLake(settings, definition)
    if compare is not None:
        serve = f"cutover serve {pipeline} --version {compare}"
        return output_comparison(comparing.compare_versions(lake, compare), serve)
    if into is not None:
        return _fill_version(lake, into, epoch)
    return _fill_definition(lake)


def _fill_version(lake: PipelineLake, into: int, epoch: int | None) -> Output:
    name, version_settings = lake.name, versions.select_stream_version(lake.settings, into)
    with _show_progress(version_settings, name) as probe:
        replayed, has_caught_up = replaying.replay_log(lake, into, SystemClock(), epoch=epoch, probe=probe)
    version = replayed.number
    place = _describe_place(version_settings, name)
    lines = [f"{name}: stream-{version} has read the log up to {place}; it serves nothing yet."]
    if has_caught_up:
        lines += [
            f"Compare: `cutover replay {name} --compare {version}` with the one that serves, and with batch:",
            f"`cutover batch {name} --version {version}`, `cutover reconcile {name} --version {version}`",
            f'Switch to it: `cutover serve {name} --version {version} --why "..."`',
        ]
    else:
        repeat_command = f"`cutover replay {name} --into {version}`"
        lines.append(
            f"The driver of the version that serves has read less: {repeat_command} continues once it has caught up."
        )
    return Output(document={"pipeline": name, "version": version, "caught_up": has_caught_up}, lines=lines)


def _fill_definition(lake: PipelineLake) -> Output:
    settings, pipeline = lake.settings, lake.pipeline
    if pipeline.change is None:
        msg = (
            f"Replay of `{pipeline.name}`: expected `--into` or `--compare`, or a definition with a `change`, got none."
        )
        raise DefinitionError(msg + f"\nHint: `cutover savepoint {pipeline.name} list` shows the versions.")
    old = catalogue.get(settings, pipeline.change.of)
    with _show_progress(settings, pipeline.name) as probe:
        replaying.replay_definition(settings, pipeline, old, SystemClock(), probe=probe)
    place = _describe_place(settings, pipeline.name)
    return Output(
        document={"pipeline": pipeline.name, "of": old.name},
        lines=[
            f"{pipeline.name}: has read the log up to an epoch of {old.name} ({place}), which is served as before.",
            f"Compare: `cutover swap {pipeline.name}`; continue: `cutover stream {pipeline.name} --detach`.",
        ],
    )


def _describe_place(settings: Settings, name: str) -> str:
    last_heartbeat = heartbeat.find_heartbeat(settings, name)
    return (
        "no epoch"
        if last_heartbeat is None or last_heartbeat.epoch is None
        else f"epoch {last_heartbeat.epoch}, watermark {last_heartbeat.watermark}"
    )


@contextmanager
def _show_progress(settings: Settings, pipeline: str) -> Iterator[Probe]:
    """Show how much of the log is read, and how long the rest will take, by the heartbeats of the driver."""
    largest_lag = 0
    with show_bar(f"{pipeline}: offsets read") as update:

        def probe(point: Point, epoch: int) -> None:  # noqa: ARG001 -- every probe's signature
            nonlocal largest_lag
            beat = heartbeat.find_heartbeat(settings, pipeline) if point == "epoch.committed" else None
            if beat is not None and beat.lag is not None:
                largest_lag = max(largest_lag, beat.lag)
                update(largest_lag - beat.lag, largest_lag)

        yield probe


def output_comparison(comparison: StreamComparison, agree: str) -> Output:
    """Return a comparison as the output of a command.

    Args:
        comparison: The comparison.
        agree: The command that lets the stream serve, without its options.
    """
    return Output(
        document=asdict(comparison) | {"exit_code": comparison.exit_code},
        lines=[*comparison.examples, *_describe(comparison), _conclude(comparison, agree)],
        exit_code=comparison.exit_code,
    )


def _describe(comparison: StreamComparison) -> Iterator[str]:
    """Yield a line for each fact besides the rows that differ."""
    epochs, late = (
        f"epochs {comparison.epochs[1]} and {comparison.epochs[0]}",
        f"late {comparison.late[1]:,} and {comparison.late[0]:,}",
    )
    yield f"{comparison.candidate} compared with {comparison.serving}, {epochs}: {late}."
    if comparison.beyond:
        yield f"{comparison.candidate} has read {count_noun(comparison.beyond, 'offset')} more, which are not compared."
    if comparison.otherwise:
        rows = count_clause(comparison.otherwise, "row", "adds up to the same and reads", "add up to the same and read")
        yield f"{rows} otherwise, since other records were late."
    for kind, (count_before, count_after) in comparison.classes.items():
        counts = f"{count_after:,}, and {count_before:,} in {comparison.serving}"
        yield f"Records that are {kind}: {counts}; no change note names that."
    if comparison.declared:
        yield f"As its change note declares: {_describe_counts(comparison.declared)}."


def _conclude(comparison: StreamComparison, agree: str) -> str:
    """Return the last line: the result, and the next step."""
    if comparison.classes:
        return "Next: find out why records are classified differently; intended changes belong in the note (`classes`)."
    if comparison.counts:
        batch = "compare each with batch (`cutover reconcile`)"
        next_command = f'`{agree} --differences {comparison.differing} --why "..."`'
        rows = f"Of {count_noun(comparison.rows, 'row')} {_describe_counts(comparison.counts)}"
        return f"{rows}. Next: {batch}; if they are as they should be, {next_command}."
    if comparison.declared:
        equality = choose_form(comparison.rows, "differs in nothing else", "differ in nothing else")
    else:
        equality = choose_form(comparison.rows, "adds up to the same", "add up to the same") + _include_late(comparison)
    rows = f"{choose_form(comparison.rows, 'The', 'All')} {count_noun(comparison.rows, 'row')}"
    return f'{rows} {equality}. Next: `{agree} --why "..."`.'


def _include_late(comparison: StreamComparison) -> str:
    """Note that rows include late records, if either stream judged a record late."""
    return ", late records among them" if any(comparison.late) else ""


def _describe_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in counts.items())


def list_unpublished(lagging: Sequence[str]) -> list[str]:
    """Name the serving tables that are not published yet, and the command that says why."""
    return [
        f"{name}: its serving table is not published yet; `cutover serve-view {name}` says why, and publishes it."
        for name in lagging
    ]


def serve(
    pipeline: Name,
    *,
    version: Annotated[int, typer.Option("--version", min=0, help="The version that serves from now on.")],
    reason: Annotated[str, typer.Option("--why", help="The reason, which is recorded.")],
    differences: Annotated[
        int, typer.Option("--differences", min=0, help="Exact number of rows that may differ from what is served now.")
    ] = 0,
    uncompared: Annotated[
        bool, typer.Option("--uncompared", help="Skip the comparison; this is recorded with the reason.")
    ] = False,
) -> Output:
    """Switch to another version of the stream, in one commit; the previous one is kept unchanged.

    One that never served is compared with the one that does, at the newest cut that both have. If rows differ it serves
    only if you have seen them: `--differences N` says how many. One that has served before serves again at once.
    """
    settings = load_settings()
    definition = load_command_definition(versions.select_stream_version(settings, version), pipeline)
    agreed = Agreed(differences=differences, uncompared=uncompared)
    served = replaying.serve_version(
        PipelineLake(settings, definition), version, reason=reason, agreed=agreed, clock=SystemClock()
    )
    number = served.version.number
    lines = (
        []
        if served.comparison is None
        else [f"{pipeline}: {served.comparison.summary}{_include_late(served.comparison)}."]
    )
    lines += list_unpublished(served.stale_pipelines)
    lines.append(f"{pipeline}: stream-{number} serves; `cutover serve` with the previous version reverts this.")
    driver = heartbeat.find_heartbeat(settings, pipeline)
    if driver is not None and driver.alive:
        lines += [
            f"The running driver (pid {driver.pid}) still writes the previous version.",
            f"`cutover stream {pipeline} --stop` ends it; the next one continues with stream-{number}.",
        ]
    return Output(
        document={"pipeline": pipeline, "version": number, "unpublished": list(served.stale_pipelines)}, lines=lines
    )


def swap(
    pipeline: Annotated[str, typer.Argument(help="Name of the changed definition; with `--back` of the old one.")],
    *,
    reason: Annotated[
        str | None, typer.Option("--why", help="Make the swap, for this reason, which is recorded.")
    ] = None,
    differences: Annotated[
        int, typer.Option("--differences", min=0, help="Exact number of rows that may differ without being declared.")
    ] = 0,
    uncompared: Annotated[
        bool, typer.Option("--uncompared", help="Skip the comparison; this is recorded with the reason.")
    ] = False,
    back: Annotated[bool, typer.Option("--back", help="The old definition serves its name again, at once.")] = False,
    anyway: Annotated[
        bool,
        typer.Option(
            "--anyway", help="With `--back`: swap even if it has read less, so that readers see an older state."
        ),
    ] = False,
) -> Output:
    """Serve a changed definition under the name of the one that its `change` names, in one commit.

    Without `--why` both are compared, at the newest common cut: 0 they differ only as the change note declares,
    1 in something else, 2 not comparable. Both keep running, so `--back` works at once.
    """
    settings = load_settings()
    definition = load_command_definition(settings, pipeline) if back else catalogue.get(settings, pipeline)
    accepts_differences = uncompared or differences > 0
    if accepts_differences and (reason is None or back):
        msg = "Swap: expected `--differences` and `--uncompared` only with `--why`."
        raise DefinitionError(msg)
    if anyway and not back:
        msg = "Swap: expected `--anyway` only with `--back`."
        raise DefinitionError(msg)
    if back:
        serves, swapped = swapping.swap_back(
            PipelineLake(settings, definition), reason=reason or "", clock=SystemClock(), anyway=anyway
        )
        lines = [
            f"{pipeline}: serves its name again, in place of {serves}.",
            *list_unpublished(swapped.stale_pipelines),
        ]
        return Output(document={"name": pipeline, "served_by": pipeline, "before": serves}, lines=lines)
    old = catalogue.get(settings, _require_note(definition))
    if reason is None:
        return output_comparison(comparing.compare_definitions(settings, definition, old), f"cutover swap {pipeline}")
    agreed = Agreed(differences=differences, uncompared=uncompared)
    swapped = swapping.swap_definition(settings, definition, old, reason=reason, agreed=agreed, clock=SystemClock())
    return Output(
        document={"name": old.name, "served_by": pipeline, "before": old.name},
        lines=[
            *(
                []
                if swapped.comparison is None
                else [f"{pipeline}: {swapped.comparison.summary}{_include_late(swapped.comparison)}."]
            ),
            *list_unpublished(swapped.stale_pipelines),
            f"{old.name}: {pipeline} serves this name.",
            f"Keep both drivers running (`cutover stream {pipeline} --detach`);",
            f'`cutover swap {old.name} --back --why "..."` swaps back at once.',
        ],
    )


def _require_note(pipeline: Pipeline) -> str:
    if pipeline.change is None:
        msg = f"Swap to `{pipeline.name}`: expected a definition with `change=Change(of=...)`, got one without."
        raise DefinitionError(msg + f"\nHint: `cutover swap {pipeline.name} --back` gives its name back to it.")
    return pipeline.change.of


COMMANDS = {
    "replay": replay,
    "serve": serve,
    "swap": swap,
}
