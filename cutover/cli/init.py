"""Command `cutover init`: proposes a definition from a file or a topic, and reads the file by the proposed parser."""

import gc
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from cutover.definition.checks.definition import KEYWORDS
from cutover.definition.loading import catalogue
from cutover.definition.model.times import compile_pattern
from cutover.definition.model.topic import check_name
from cutover.errors import CutoverError, DefinitionError
from cutover.log.kafka import LogClient
from cutover.output.cells import visible
from cutover.output.console import Output
from cutover.records.csv_files import CHUNK, find_dialect, name_fields, read_csv
from cutover.records.json_files import find_json_layout, read_json_records
from cutover.records.proposal import template
from cutover.records.proposal.guess import NESTED, SAMPLE, Column, Guess, Survey, complete_guess
from cutover.records.proposal.nested_fields import NestedFields
from cutover.records.proposal.parsed_file import ParsedFile, parse_all_records
from cutover.records.record_files import format_name, is_json, parse_line, reject_line
from cutover.records.reference.parse import parse_object
from cutover.settings import Settings, load_settings

TOPIC_CHARACTERS = 249
_MAX_NOTES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Definition that was written, and what its reader has to know."""

    file: Path
    guess: Guess
    parsed: ParsedFile | None  # None: from a topic
    notes: tuple[str, ...]  # what is not certain, and what `produce` changes


def init_definition(
    name: Annotated[str, typer.Argument(help="Name of the new pipeline.")],
    source: Annotated[str, typer.Option("--from", help="A CSV or JSON file, or a topic.")],
    time_format: Annotated[
        str | None, typer.Option(help="Pattern of the times, such as `dd/MM/yyyy`, if the file does not show it.")
    ] = None,
) -> Output:
    """Write a proposed definition: schema and times are inferred, each choice is explained."""
    proposal = init(load_settings(), name, source, time_format=time_format)
    parsed = proposal.parsed
    lines = [*proposal.notes[:_MAX_NOTES]]
    if len(proposal.notes) > _MAX_NOTES:
        lines.append(f"... and {len(proposal.notes) - _MAX_NOTES:,} more, in the file's comments.")
    lines += parsed.describe() if parsed else []
    lines.append(f"Wrote {proposal.file}. Read its comments, correct the guesses, then: cutover lint {name}")
    document = {
        "pipeline": name,
        "file": str(proposal.file),
        "records": proposal.guess.rows,
        "malformed": parsed.malformed if parsed else None,
        "malformed_reasons": dict(parsed.reasons) if parsed else {},
        "malformed_examples": parsed.examples if parsed else [],
        "notes": list(proposal.notes),
    }
    return Output(document=document, lines=list(lines))


def init(settings: Settings, name: str, source: str, *, time_format: str | None = None) -> Draft:
    """Write `<pipelines>/<name>.py`.

    Args:
        settings: Folder of definitions, and the cluster if `source` is a topic.
        name: Name of the pipeline.
        source: File, or else a topic.
        time_format: Pattern of times that the user states.

    Raises:
        DefinitionError: The name cannot be used, the file of the definition exists, or no definition can be inferred.
        LogError: No broker answers, or the topic does not exist.
    """
    target = locate_new_definition(settings, name)
    if time_format is not None:
        compile_pattern(time_format)
    path = Path(source)
    if not path.is_file():
        guess = _check_usable(survey_topic(settings, source, time_format).guess(), source)
        text = template.render_definition(name, source, source, guess, is_topic=True)
        notes = tuple(_list_notes(guess))
        return Draft(file=write_definition(target, text), guess=guess, parsed=None, notes=notes)
    with _pause_garbage_collection():
        survey = survey_file(path, time_format)
        draft = _check_usable(survey.guess(), source)
        parsed = parse_all_records(path, draft.make_topic(name), draft.key, survey.marks)
    guess = complete_guess(draft, parsed.times, None if draft.key is None else len(parsed.keys))
    text = template.render_definition(name, name, path.name, guess)
    notes = (*_describe_layout(path), *_list_notes(guess))
    return Draft(file=write_definition(target, text), guess=guess, parsed=parsed, notes=notes)


def locate_new_definition(settings: Settings, name: str) -> Path:
    """Return the file of a new definition.

    Raises:
        DefinitionError: The name cannot be used, or the file exists.
    """
    check_name(name, of="NAME")
    if name.lower() in KEYWORDS:
        msg = f"NAME: expected a name that is not a reserved word of SQL, got `{name}`."
        raise DefinitionError(msg)
    target = settings.pipelines / f"{name}.py"
    if target.exists():
        msg = f"{target}: expected no file, but it exists.\nHint: choose another name, or delete the file."
        raise DefinitionError(msg)
    return target


@contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Pause the collection of reference cycles: records have none, and to look for them takes half of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def survey_file(path: Path, time_format: str | None = None) -> Survey:
    """Read all records of a file.

    Args:
        path: The file.
        time_format: Pattern of times that the user states.

    Raises:
        DefinitionError: The file cannot be read, or a line is not a record.
    """
    survey = Survey(is_cells=not is_json(path), stated_format=time_format)
    if not survey.is_cells:
        _survey_json(path, survey)
        return _survey_nested_fields(path, survey) or survey
    records = read_csv(path)
    header_line, header = next(records, (1, []))
    _check_has_header(path, header_line, header)
    names = name_fields(header)
    survey.declare(names)
    survey.renamed = {name: text for name, text in zip(names, header, strict=True) if name != text}
    while chunk := list(islice(records, CHUNK)):
        survey.add_cells([number for number, _ in chunk], [cells for _, cells in chunk])
    return survey


def _survey_json(path: Path, survey: Survey) -> None:
    for number, line in read_json_records(path, find_json_layout(path)):
        document, violation = parse_line(path, number, line)
        if violation is None:
            survey.add_object(number, dict(document.members))
        else:
            survey.malformed += 1


def _survey_nested_fields(path: Path, survey: Survey) -> Survey | None:
    """Read the fields inside of objects if no field at the top is a time; None if that shows no time either."""
    guess = survey.guess()
    if guess.event_time is not None or not guess.nested or _hint_layout(guess) is not None:
        return None
    nested_survey = Survey(is_cells=False, stated_format=survey.stated_format, nested=NestedFields())
    _survey_json(path, nested_survey)
    return None if nested_survey.guess().event_time is None else nested_survey


def _check_has_header(path: Path, line: int, header: list[str]) -> None:
    """Reject a first line that is a record: no name of a column is a number or a time."""
    values = [cell for cell in header if cell.strip()[:1].isdigit()]
    if len(values) > len(header) / 2:
        hint = "`sed '1i NAME,NAME,...' FILE` puts a header before the first line."
        reject_line(path, line, f"a header with names of columns, got `{format_name(values[0])}`", hint=hint)


def survey_topic(settings: Settings, topic: str, time_format: str | None = None) -> Survey:
    """Read the newest records of a topic, without those that are not JSON objects.

    Args:
        settings: The cluster.
        topic: Name of the topic.
        time_format: Pattern of times that the user states.

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
    survey, starts = Survey(is_cells=False, stated_format=time_format), set[bytes]()
    for partition, end in latest.items():
        for record in client.read_range(topic, partition, max(earliest[partition], end - share), end):
            try:
                document = parse_object((record.value or b"").decode("utf-8"))
            except (ValueError, RecursionError):
                survey.malformed += 1
                starts.add((record.value or b"").lstrip()[:1])
            else:
                survey.add_object(record.offset, dict(document.members), partition)
    if starts and not survey.rows:
        reject_other_form(topic, starts - {b""})
    return survey


def reject_other_form(topic: str, starts: set[bytes]) -> None:
    """Reject a topic of which no value is JSON, and name what reads it.

    Args:
        topic: Name of the topic.
        starts: First bytes of its values.

    Raises:
        DefinitionError: All values are Avro, or text.
    """
    actual = forms = ""
    if starts == {b"\0"}:
        actual, forms = "that begin with a zero byte, as those of a schema registry do", '`parse="avro"` or "protobuf"'
    elif starts and not starts & {b"\0", b"{", b"["}:
        actual, forms = "in plain text", '`parse="csv"` for lines of CSV, or `parse="text"`'
    if actual:
        msg = f"--from {topic}: expected JSON objects, got values {actual}."
        raise DefinitionError(msg + f"\nHint: write the definition yourself, with {forms}.")


def _describe_layout(path: Path) -> Iterator[str]:
    layout = find_json_layout(path).describe() if is_json(path) else find_dialect(path).describe()
    if layout is not None:
        yield f"Read {layout}; `produce` reads the same."


def _list_notes(guess: Guess) -> Iterator[str]:
    """Yield what is not certain, and what is changed when the file is sent."""
    for name, text in guess.renamed.items():
        if name not in guess.omitted:
            yield f"Column `{format_name(text)}` is the field `{name}`."
    for name, reason in guess.omitted.items():
        yield f"Left out: `{format_name(name)}` ({visible(reason)})."
    for column in guess.columns:
        for note in column.notes:
            yield f"Column `{column.name}`: {visible(note)}."
    if guess.pace.is_unordered:
        yield f"Order: {guess.pace.lateness_evidence[0]}."
    if guess.where is not None:
        yield "Change events: deletions are filtered (`where`), and a row counts once for each of its changes."
    elif guess.is_from_nested_fields:
        yield "No field at the top of a record is a time: fields inside of objects are proposed with their places."
    if guess.key is None:
        yield "No column groups the records: they are one series."


def _check_usable(guess: Guess, source: str) -> Guess:
    if guess.rows == 0:
        msg = f"--from {source}: expected records with fields (JSON objects, or CSV with a header), found none."
        raise DefinitionError(msg)
    if guess.event_time is not None:
        return guess
    names = ", ".join(_describe_column(column) for column in guess.columns) or "none"
    omitted_text = "".join(f"; omitted: `{format_name(name)}`, {reason}" for name, reason in guess.omitted.items())
    expected = "a column with a time (ISO 8601, a pattern, or Unix seconds or milliseconds)"
    hint = _hint_layout(guess) or _hint_time(guess, is_file=Path(source).is_file())
    msg = f"--from {source}: expected {expected}, got {names}{omitted_text}.\nHint: {hint}"
    raise DefinitionError(msg)


def _is_nested(guess: Guess, name: str) -> bool:
    return guess.omitted.get(name) == NESTED


def _describe_column(column: Column) -> str:
    form = f": {column.time_form}, such as {column.example}" if column.time_form else ""
    return f"{column.name} ({column.type}{form})"


def _hint_time(guess: Guess, *, is_file: bool) -> str:
    """Return a hint if no column is a time; of a file the fields inside of objects were read, too."""
    nested = [name for name in guess.omitted if _is_nested(guess, name)]
    unclear = next((c.time_form for c in guess.columns if "no value shows which" in (c.time_form or "")), None)
    if unclear is not None:
        pattern = unclear.split("`")[-2]
        return f"state the pattern: `cutover init NAME --from FILE --time-format {shlex.quote(pattern)}`."
    if any((column.time_form or "").startswith("times except") for column in guess.columns):
        return "correct or remove these lines; `produce` rejects a file in which a time has another format."
    if any(column.time_form for column in guess.columns):
        return "write these times as 2026-03-02T00:00:00.123456Z, or as whole Unix seconds or milliseconds."
    if any("no identifier" in reason for reason in guess.omitted.values()):
        return "names are letters, digits and `_`: rename the fields."
    if nested and not is_file:
        return (
            f"of a topic only fields at the top of a record are read; `fields` names the place of one in `{nested[0]}`."
        )
    return "Unix times of the years 2000 to 2099 are recognised by a name such as `event_time` or `created_at`."


def _hint_layout(guess: Guess) -> str | None:
    """Return a hint if the only object of a file holds columns, or rows that are arrays; else None."""
    if guess.rows != 1:
        return None
    if len(guess.nested) > 1 and len(set(guess.nested.values())) == 1:
        return "these are columns; records are written by `df.to_json(FILE, orient='records', lines=True)` of pandas."
    arrays = [name for name in guess.omitted if _is_nested(guess, name) and name not in guess.nested]
    if not arrays:
        return None
    return f"rows that are arrays need names: `jq -c '.{arrays[0]}[] | {{id: .[0], at: .[1]}}' FILE` writes objects."


def write_definition(target: Path, text: str) -> Path:
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
