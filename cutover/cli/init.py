"""`cutover init`: a definition to start from, guessed from a file or from records of a topic."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

from cutover.definition.checks.definition import KEYWORDS
from cutover.definition.loading import catalogue
from cutover.definition.model.schema import check_name
from cutover.definition.proposal import template
from cutover.definition.proposal.guess import Guess, guess
from cutover.errors import CutoverError, DefinitionError
from cutover.log.kafka import LogClient
from cutover.log.sending.lines import read_lines
from cutover.log.sending.rows import csv_records, is_json
from cutover.settings import Settings

SAMPLE = 1_000
TOPIC_CHARACTERS = 249


def init(settings: Settings, name: str, source: str) -> Path:
    """Write `<pipelines>/<name>.py` and return it.

    Args:
        settings: The folder of definitions; the cluster, if `source` is a topic.
        name: Of the pipeline.
        source: A file that exists, else a topic.

    Raises:
        DefinitionError: The name cannot be used, the file of the definition exists, or no definition can be guessed.
        LogError: No broker answers, or it knows no such topic.
    """
    check_name(name, of="NAME")
    if name.lower() in KEYWORDS:
        msg = f"NAME: expected a name that SQL does not use itself, got `{name}`."
        raise DefinitionError(msg)
    target = settings.pipelines / f"{name}.py"
    if target.exists():
        msg = f"{target}: expected no file, there is one.\nHint: choose another name, or delete it yourself."
        raise DefinitionError(msg)
    is_file = Path(source).is_file()
    sample, partitions = (file_sample(Path(source)), []) if is_file else topic_sample(settings, source)
    found = _check_usable(guess(sample, partitions), source)
    text = template.render(name, name if is_file else source, Path(source).name if is_file else source, found)
    return _write_definition(target, text)


def file_sample(path: Path) -> list[dict[str, Any]]:
    """Return the first records of a file: JSON objects, or cells by column with None for an empty one.

    Raises:
        DefinitionError: The file cannot be read.
    """
    if is_json(path):
        lines = (line for _, line in read_lines(path) if line.strip())
        return _objects(list(islice(lines, SAMPLE)))
    records = csv_records(path)
    _, header = next(records, (1, []))
    return [
        {name: cell or None for name, cell in zip(header, cells, strict=False)} for _, cells in islice(records, SAMPLE)
    ]


def topic_sample(settings: Settings, topic: str) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the newest records of a topic that are JSON objects, and the partition of each.

    Raises:
        LogError: No broker answers, or it knows no such topic.
        DefinitionError: `topic` can be neither a file nor a topic.
    """
    if not topic or len(topic) > TOPIC_CHARACTERS or not all(c.isalnum() or c in "._-" for c in topic):
        msg = f"--from: expected a file that exists or a topic, got `{topic[:80]}`."
        raise DefinitionError(msg)
    try:
        client = LogClient(settings)
        earliest, latest = client.earliest(topic), client.latest(topic)
    except CutoverError as error:
        msg = f"--from: there is no file `{topic[:80]}`, so a topic was looked for: {error}"
        raise type(error)(msg) from error
    share = SAMPLE // max(len(latest), 1)
    found: list[dict[str, Any]] = []
    partitions: list[int] = []
    for partition, end in latest.items():
        start = max(earliest[partition], end - share)
        records = client.read_range(topic, partition, start, end)
        found += _objects([record.value for record in records if record.value is not None])
        partitions += [partition] * (len(found) - len(partitions))
    return found, partitions


def _objects(texts: list[bytes]) -> list[dict[str, Any]]:
    found = []
    for text in texts:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def _check_usable(found: Guess, source: str) -> Guess:
    if found.rows == 0:
        msg = f"--from {source}: expected records with fields (JSON objects, or CSV with a header), found none."
        raise DefinitionError(msg)
    left_out = "".join(f"; left out: `{name}`, {why}" for name, why in found.left_out.items())
    if found.event_time is None:
        names = ", ".join(f"{column.name} ({column.type})" for column in found.columns) or "none"
        wanted = "a column with a time (ISO 8601, or Unix seconds or milliseconds)"
        msg = f"--from {source}: expected {wanted}, got {names}{left_out}."
        raise DefinitionError(msg + "\nHint: Unix times are recognised by a name such as `event_time` or `created_at`.")
    if found.key is None:
        wanted = "a column to group by, which is neither a time nor a double"
        msg = f"--from {source}: expected {wanted}, found none{left_out}."
        raise DefinitionError(msg + _renaming(found))
    return found


def _renaming(found: Guess) -> str:
    """Return how a column named like a word of SQL can be a key; empty if there is none."""
    word = next((column.name for column in found.columns if column.name.lower() in KEYWORDS), None)
    renamed = f"derive={{'{word}_': '`{word}`'}}"
    hint = f"\nHint: `{word}` is a word of SQL: in backticks it can be renamed, as in {renamed}, and be a key."
    return hint if word else ""


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
