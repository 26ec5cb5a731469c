"""Files with rules of acceptance, next to the definitions: `accepted/<pipeline>/<name>.toml`, one rule each."""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from cutover import files
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.expressions.terms import numeric
from cutover.definition.loading.key_text import parse_key
from cutover.definition.model.acceptance import AcceptanceRule
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.settings import Settings

FOLDER = "accepted"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,79}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceRules:
    """The rules of a pipeline by name, in the order of their names, and what is wrong with the files that are none."""

    rules: Mapping[str, AcceptanceRule] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)  # name -> one line


def folder(settings: Settings, pipeline: Pipeline) -> Path:
    """Return where a pipeline's rules lie."""
    return settings.pipelines / FOLDER / pipeline.name


def load(settings: Settings, pipeline: Pipeline) -> AcceptanceRules:
    """Read the rules of a pipeline; a file that cannot be read is a problem and accepts nothing."""
    rules, problems = {}, {}
    for path in sorted(folder(settings, pipeline).glob("*")):
        if path.suffix.lower() != ".toml":
            continue
        try:
            _check_rule_name(path.name.removesuffix(".toml"))
            rules[path.stem] = parse(path.read_text(encoding="utf-8"), pipeline)
        except (DefinitionError, OSError, UnicodeDecodeError) as error:
            problems[path.stem] = f"{path}: {error}".replace("\n", " ")
    return AcceptanceRules(rules=rules, problems=problems)


def parse(text: str, pipeline: Pipeline) -> AcceptanceRule:
    """Return the rule of a TOML text.

    Raises:
        DefinitionError: It is no TOML, a field does not fit, or a measure is not one of the pipeline's.
    """
    try:
        rule = AcceptanceRule.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        msg = f"expected TOML, got: {error}"
        raise DefinitionError(msg) from None
    except RecursionError:
        msg = "expected TOML, got lists or tables within others that are too deep"
        raise DefinitionError(msg) from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise DefinitionError((f"`{place}`: " if place else "") + first["msg"].removeprefix("Value error, ")) from None
    reject_unfit(rule, pipeline)
    return rule


def reject_unfit(rule: AcceptanceRule, pipeline: Pipeline) -> None:
    """Reject a rule whose keys or measures are not those of a pipeline.

    Raises:
        DefinitionError: A key has more or fewer values than columns, a measure is not one of the pipeline's, or a
            volume is that of a measure whose result is no number.
    """
    for key in rule.keys:
        parse_key(key, pipeline.key)
    for name in (*rule.measures, *rule.max_volume):
        if name not in pipeline.measures:
            msg = f"measure `{name}`: expected one of {', '.join(pipeline.measures)}"
            raise DefinitionError(msg)
    kinds = compile_pipeline(pipeline).result_types
    for name in rule.max_volume:
        if not numeric(kinds[name]):
            msg = f"`max_volume.{name}`: expected a measure whose result is a number, got {kinds[name]}"
            raise DefinitionError(msg)


def write(settings: Settings, pipeline: Pipeline, name: str, rule: AcceptanceRule) -> Path:
    """Write a rule's file.

    Raises:
        DefinitionError: The name is none for a file, or taken.
    """
    _check_rule_name(name)
    path = folder(settings, pipeline) / f"{name}.toml"
    if path.exists():
        msg = f"Rule `{name}` of `{pipeline.name}`: expected a name that is free, {path} is there."
        raise DefinitionError(msg)
    files.write(path, format_rule(rule), mode=0o644)
    return path


def _check_rule_name(name: str) -> None:
    if _NAME.match(name) is None:
        msg = f"Name of a rule: expected small letters, digits and hyphens, at most 80, got `{name[:80]}`."
        raise DefinitionError(msg)


def format_rule(rule: AcceptanceRule) -> str:
    """Return a rule as TOML, fields that do not narrow it left out."""
    lines = []
    for name, value in rule:
        if value not in (None, [], {}, False):
            lines.append(f"{name} = {_format_value(value)}")
    return "\n".join(lines) + "\n"


def _format_value(value: object) -> str:
    """Return a value in TOML, which has texts, numbers and lists as JSON has them, but for the sign DEL."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_format_value(k)} = {_format_value(v)}" for k, v in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
