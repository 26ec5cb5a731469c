"""`cutover init`: a proposed definition, inferred from a file or from records of a topic."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cutover.definition.checks.definition import KEYWORDS
from cutover.definition.loading import catalogue
from cutover.definition.model.topic import check_name
from cutover.errors import CutoverError, DefinitionError
from cutover.log.kafka import LogClient
from cutover.records.files.cells import format_name
from cutover.records.files.lines import reject
from cutover.records.files.tables import is_json, parse_line, read_csv, read_json_lines
from cutover.records.proposal import template
from cutover.records.proposal.guess import NESTED, SAMPLE, Column, Guess, Survey
from cutover.records.reference.parse import parse_object
from cutover.settings import Settings

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
            reject(path, number, f"{len(header)} cells, got {len(cells)}")
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
