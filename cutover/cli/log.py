"""Commands on files and topics: `cutover produce` sends a file, `cutover init` proposes a definition."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cutover.cli.init import init_definition
from cutover.clock import SystemClock
from cutover.counts import count_clause, count_noun
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline, make_left_side, make_right_side
from cutover.errors import DefinitionError
from cutover.output.console import Line, Output, show_bar
from cutover.pipeline_lake import PipelineLake
from cutover.records.record_files import format_name
from cutover.records.sending.produce import Progress, Request, Summary, produce
from cutover.records.sending.rows import LogTimeRange
from cutover.settings import load_settings
from cutover.timestamps import parse_micros


def produce_file(  # noqa: PLR0913, PLR0917 -- each is an option of the command
    file: Annotated[Path, typer.Argument(help="CSV (with a header) or JSON, gzip or not.")],
    pipeline: Annotated[str, typer.Option("--pipeline", "-p", help="Whose topic, schema and log time.")],
    topic: Annotated[str | None, typer.Option(help="Topic of a join; else the source's.")] = None,
    start: Annotated[str | None, typer.Option("--from", help="First log time, such as 2013-01-01T06:00.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="Log time to stop before.")] = None,
    speed: Annotated[str, typer.Option(help="`max`, or how many times faster than the log times: `1000x`.")] = "max",
    partitions: Annotated[int | None, typer.Option(min=1, help="Partitions of a new topic; else 4.")] = None,
    resend: Annotated[bool, typer.Option("--again", help="Send the file although it was sent before.")] = False,
    confirm: Annotated[bool, typer.Option("--confirm", help="Send it although its records are malformed.")] = False,
) -> Output:
    """Replay a file into the pipeline's topic, in log-time order, with the data's own log timestamps."""
    settings = load_settings()
    definition = select_topic(catalogue.get(settings, pipeline), topic)
    request = Request(
        file=file,
        log_times=LogTimeRange(start=_time(start, of="--from"), end=_time(end, of="--to")),
        speed=parse_speed(speed),
        partitions=partitions,
        resend=resend,
        confirm=confirm,
    )
    with _show_progress(file.name) as progress:
        summary = produce(PipelineLake(settings, definition), request, clock=SystemClock(), progress=progress)
    return Output(document=asdict(summary), lines=_list_lines(summary))


def select_topic(pipeline: Pipeline, topic: str | None) -> Pipeline:
    """Return a pipeline whose source is the given one of its topics; None: its source.

    Raises:
        DefinitionError: The pipeline does not read this topic.
    """
    sides = {side.source.name: side for side in (make_right_side(pipeline), make_left_side(pipeline))}
    if topic is None:
        return pipeline
    if topic not in sides:
        msg = f"--topic: expected {' or '.join(sorted(sides))}, the topics of `{pipeline.name}`, got `{topic[:80]}`."
        raise DefinitionError(msg)
    return sides[topic]


def parse_speed(text: str) -> float | None:
    """Parse the factor of `1000x`; None for `max`.

    Raises:
        DefinitionError: The text is neither.
    """
    if text == "max":
        return None
    try:
        factor = float(text.removesuffix("x"))
    except ValueError:
        factor = 0.0
    if not 0 < factor < float("inf"):
        msg = f"--speed: expected `max` or a factor such as `1000x`, got `{text[:40]}`."
        raise DefinitionError(msg)
    return factor


def _time(text: str | None, *, of: str) -> int | None:
    try:
        return None if text is None else parse_micros(text)
    except ValueError:
        msg = f"{of}: expected a time such as 2013-01-01 or 2013-01-01T06:00 (UTC), got `{(text or '')[:40]}`."
        raise DefinitionError(msg) from None


def _list_lines(summary: Summary) -> list[Line]:
    lines: list[Line] = [
        f"{count_noun(summary.records, 'record')} sent to topic `{summary.topic}` in {summary.seconds:.1f} s."
    ]
    if summary.already_sent:
        records = count_clause(summary.already_sent, "other record", "is", "are")
        lines.append(f"{records} in the topic already.")
    if summary.differs:
        lines.append(summary.differs)
    if summary.ignored_columns:
        names = ", ".join(map(format_name, summary.ignored_columns))
        lines.append(f"Columns outside the schema were omitted: {names}.")
    if summary.malformed:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in summary.malformed_reasons.items())
        cells = (
            f"; {count_clause(summary.unfit_cells, 'cell', 'does', 'do')} not fit its type"
            if summary.unfit_cells
            else ""
        )
        lines.append(f"{summary.malformed:,} of these records will be malformed ({reasons}){cells}:")
        lines += [f"  {example}" for example in summary.malformed_examples]
        more = summary.malformed - len(summary.malformed_examples)
        lines += [f"  ... and {more:,} more"] if more else []
    return lines


@contextmanager
def _show_progress(name: str) -> Iterator[Progress]:
    with show_bar(f"read {name}") as update:
        read_count = sent_count = total_count = 0

        def count_read(count: int) -> None:
            nonlocal read_count
            read_count += count
            update(read_count, None)

        def set_total(count: int) -> None:
            nonlocal total_count
            total_count = count

        def count_sent(count: int) -> None:
            nonlocal sent_count
            sent_count += count
            update(sent_count, total_count, "send")

        yield Progress(on_read=count_read, on_total=set_total, on_sent=count_sent)


COMMANDS = {
    "produce": produce_file,
    "init": init_definition,
}
