"""Commands on files and topics: `cutover produce` sends a file, `cutover init` proposes a definition."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from cutover.clock import SystemClock
from cutover.counts import count_clause, count_noun
from cutover.definition.checks.definition import KEYWORDS
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline, make_left_side, make_right_side
from cutover.definition.model.topic import check_name
from cutover.errors import CutoverError, DefinitionError
from cutover.log.kafka import LogClient
from cutover.output.console import Line, Output, show_bar
from cutover.pipeline_lake import PipelineLake
from cutover.records.proposal import template
from cutover.records.proposal.guess import NESTED, SAMPLE, Column, Guess, Survey
from cutover.records.record_files import format_name, is_json, parse_line, read_csv, read_json_lines, reject_line
from cutover.records.reference.parse import parse_object
from cutover.records.sending.produce import Progress, Request, Summary, produce
from cutover.records.sending.rows import LogTimeRange
from cutover.settings import Settings, load_settings
from cutover.timestamps import parse_micros


def init_definition(
    name: Annotated[str, typer.Argument(help="Name of the new pipeline.")],
    source: Annotated[str, typer.Option("--from", help="A CSV or JSON-lines file, or a topic.")],
) -> Output:
    """Write a proposed definition: schema and times are inferred, each choice is explained."""
    path = init(load_settings(), name, source)
    text = f"Wrote {path}. Read its comments, correct the guesses, then: cutover lint {name}"
    return Output(document={"pipeline": name, "file": str(path)}, lines=[text])


def produce_file(  # noqa: PLR0913, PLR0917 -- each is an option of the command
    file: Annotated[Path, typer.Argument(help="CSV (with a header) or JSON lines, gzip or not.")],
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


TOPIC_CHARACTERS = 249
_ENVELOPE = {"before", "after", "op"}


def init(settings: Settings, name: str, source: str) -> Path:
    """Write `<pipelines>/<name>.py` and return it.

    Args:
        settings: Folder of definitions, and the cluster if `source` is a topic.
        name: Name of the pipeline.
        source: File, or else a topic.

    Raises:
        DefinitionError: The name cannot be used, the file of the definition exists, or no definition can be inferred.
        LogError: No broker answers, or the topic does not exist.
    """
    check_name(name, of="NAME")
    if name.lower() in KEYWORDS:
        msg = f"NAME: expected a name that is not a reserved word of SQL, got `{name}`."
        raise DefinitionError(msg)
    target = settings.pipelines / f"{name}.py"
    if target.exists():
        msg = f"{target}: expected no file, but it exists.\nHint: choose another name, or delete the file."
        raise DefinitionError(msg)
    is_file = Path(source).is_file()
    path = Path(source)
    guess = survey_file(path).guess(_read_valid_records(path)) if is_file else survey_topic(settings, source).guess()
    usable_guess = _check_usable(guess, source)
    origin = Path(source).name if is_file else source
    text = template.render_definition(name, name if is_file else source, origin, usable_guess, is_topic=not is_file)
    return _write_definition(target, text)


def survey_file(path: Path) -> Survey:
    """Read all records of a file.

    Raises:
        DefinitionError: The file cannot be read, or a line is not a record.
    """
    survey = Survey(is_cells=not is_json(path))
    if survey.is_cells:
        _, header = next(read_csv(path), (1, []))
        survey.declare(header)
    for number, record in _read_fields(path, is_cells=survey.is_cells):
        if record is None:
            survey.malformed += 1
        else:
            survey.add(number, record)
    return survey


def _read_valid_records(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the fields of all valid records of a file."""
    return (record for _, record in _read_fields(path, is_cells=not is_json(path)) if record is not None)


def _read_fields(path: Path, *, is_cells: bool) -> Iterator[tuple[int, Mapping[str, Any] | None]]:
    """Yield line number and fields of each record of a file; None for one that exceeds the limits."""
    if not is_cells:
        for number, line in read_json_lines(path):
            document, violation = parse_line(path, number, line)
            yield number, dict(document.members) if violation is None else None
        return
    records = read_csv(path)
    _, header = next(records, (1, []))
    for number, cells in records:
        if len(cells) != len(header):
            reject_line(path, number, f"{count_noun(len(header), 'cell')}, got {len(cells)}")
        yield number, dict(zip(header, cells, strict=True))


def survey_topic(settings: Settings, topic: str) -> Survey:
    """Read the newest records of a topic, without those that are not JSON objects.

    Raises:
        LogError: No broker answers, or the topic does not exist.
        DefinitionError: `topic` can be neither a file nor a topic.
    """
    if (
        not topic
        or len(topic) > TOPIC_CHARACTERS
        or not all(character.isalnum() or character in "._-" for character in topic)
    ):
        msg = f"--from: expected a file that exists or a topic, got `{topic[:80]}`."
        raise DefinitionError(msg)
    try:
        client = LogClient(settings)
        earliest, latest = client.earliest(topic), client.latest(topic)
    except CutoverError as error:
        msg = f"--from: no file `{topic[:80]}` exists, so a topic was expected: {error}"
        raise type(error)(msg) from error
    share = max(1, SAMPLE // max(len(latest), 1))
    survey = Survey(is_cells=False)
    for partition, end in latest.items():
        for record in client.read_range(topic, partition, max(earliest[partition], end - share), end):
            try:
                document = parse_object((record.value or b"").decode("utf-8"))
            except (ValueError, RecursionError):
                survey.malformed += 1
            else:
                survey.add(record.offset, dict(document.members), partition)
    return survey


def _check_usable(guess: Guess, source: str) -> Guess:
    if guess.rows == 0:
        msg = f"--from {source}: expected records with fields (JSON objects, or CSV with a header), found none."
        raise DefinitionError(msg)
    if set(guess.omitted) | {column.name for column in guess.columns} >= _ENVELOPE and _is_nested(guess, "after"):
        msg = f"--from {source}: expected a record, got the envelope of a change event: its row is under `after`."
        hint = "unwrap it (Debezium's `ExtractNewRecordState`), or `jq -c 'select(.after) | .after' FILE`."
        raise DefinitionError(msg + f"\nHint: {hint}")
    if guess.event_time is not None:
        return guess
    names = ", ".join(_describe_column(column) for column in guess.columns) or "none"
    omitted_text = "".join(f"; omitted: `{format_name(name)}`, {reason}" for name, reason in guess.omitted.items())
    expected = "a column with a time (ISO 8601, or Unix seconds or milliseconds)"
    msg = f"--from {source}: expected {expected}, got {names}{omitted_text}.\nHint: {_hint_time(guess)}"
    raise DefinitionError(msg)


def _is_nested(guess: Guess, name: str) -> bool:
    return guess.omitted.get(name) == NESTED


def _describe_column(column: Column) -> str:
    form = f": {column.time_form}, such as {column.example}" if column.time_form else ""
    return f"{column.name} ({column.type}{form})"


def _hint_time(guess: Guess) -> str:
    """Return a hint if no column is a time."""
    nested = [name for name in guess.omitted if _is_nested(guess, name)]
    if any(column.time_form for column in guess.columns):
        return "write these times as 2026-03-02T00:00:00.123456Z, or as whole Unix seconds or milliseconds."
    if any("no identifier" in reason for reason in guess.omitted.values()):
        return "names are letters, digits and `_`: rename the columns in the header."
    if nested:
        return f"fields at the top of a record alone are read: `jq -c .{nested[0]} FILE` writes what is under one."
    return "Unix times of the years 2000 to 2099 are recognised by a name such as `event_time` or `created_at`."


def _write_definition(target: Path, text: str) -> Path:
    """Write the definition only if it loads."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_suffix(".draft")
    draft.write_text(text, encoding="utf-8")
    try:
        catalogue.load_file(draft)
        draft.rename(target)
    finally:
        draft.unlink(missing_ok=True)
    return target


COMMANDS = {
    "produce": produce_file,
    "init": init_definition,
}
