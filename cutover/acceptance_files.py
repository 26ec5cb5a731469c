"""Acceptance rules in files next to the definitions: `accepted/<pipeline>/<name>.toml`, one rule each."""

import json
import re
import tomllib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from cutover import files
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.expressions.terms import is_numeric
from cutover.definition.loading.key_text import parse_key
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.policy import AcceptanceRule, AcceptanceRules
from cutover.errors import DefinitionError
from cutover.pipeline_lake import PipelineLake

FOLDER = "accepted"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,79}\Z")


def locate_rule_files(lake: PipelineLake) -> Path:
    """Return where the rule files of a pipeline are stored."""
    return lake.settings.pipelines / FOLDER / lake.name


def load_acceptance_rules(lake: PipelineLake) -> AcceptanceRules:
    """Read the rules of a pipeline; an invalid file is reported as a problem and accepts nothing."""
    rules, problems = {}, {}
    for path in sorted(locate_rule_files(lake).glob("*")):
        if path.suffix.lower() != ".toml":
            continue
        try:
            _check_rule_name(path.name.removesuffix(".toml"))
            rules[path.stem] = parse_rule(path.read_text(encoding="utf-8"), lake.pipeline)
        except (DefinitionError, OSError, UnicodeDecodeError) as error:
            problems[path.stem] = f"{path}: {error}".replace("\n", " ")
    return AcceptanceRules(rules=rules, problems=problems)


def parse_rule(text: str, pipeline: Pipeline) -> AcceptanceRule:
    """Parse a rule from a TOML text.

    Raises:
        DefinitionError: The text is not TOML, a field is invalid, or a measure is not one of the pipeline's.
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
        detail = error.errors(include_url=False, include_input=False, include_context=False)[0]
        field_name = ".".join(map(str, detail["loc"]))
        prefix = f"`{field_name}`: " if field_name else ""
        raise DefinitionError(prefix + detail["msg"].removeprefix("Value error, ")) from None
    check_against_pipeline(rule, pipeline)
    return rule


def check_against_pipeline(rule: AcceptanceRule, pipeline: Pipeline) -> None:
    """Reject a rule whose keys or measures do not match a pipeline.

    Raises:
        DefinitionError: A key has another number of values than columns, a measure is not one of the pipeline's, or a
            volume belongs to a measure whose result is not a number.
    """
    for key in rule.keys:
        parse_key(key, pipeline.key)
    for name in (*rule.measures, *rule.max_volume):
        if name not in pipeline.measures:
            msg = f"measure `{name}`: expected one of {', '.join(pipeline.measures)}"
            raise DefinitionError(msg)
    kinds = compile_pipeline(pipeline).result_types
    for name in rule.max_volume:
        if not is_numeric(kinds[name]):
            msg = f"`max_volume.{name}`: expected a measure whose result is a number, got {kinds[name]}"
            raise DefinitionError(msg)


def write_rule_file(lake: PipelineLake, name: str, rule: AcceptanceRule) -> Path:
    """Write a rule's file.

    Raises:
        DefinitionError: The name is invalid, or exists already.
    """
    _check_rule_name(name)
    path = locate_rule_files(lake) / f"{name}.toml"
    if path.exists():
        msg = f"Rule `{name}` of `{lake.name}`: expected a new name, got one that exists: {path}."
        raise DefinitionError(msg)
    files.write_atomically(path, format_rule(rule), mode=0o644)
    return path


def _check_rule_name(name: str) -> None:
    if _NAME.match(name) is None:
        msg = f"Name of a rule: expected lower-case letters, digits and hyphens, at most 80, got `{name[:80]}`."
        raise DefinitionError(msg)


def format_rule(rule: AcceptanceRule) -> str:
    """Format a rule as TOML, without fields that have their default."""
    lines = []
    for name, value in rule:
        if value not in (None, [], {}, False):
            lines.append(f"{name} = {_format_value(value)}")
    return "\n".join(lines) + "\n"


def _format_value(value: object) -> str:
    """Format a value as TOML, which has strings, numbers and lists as in JSON, except for the character DEL."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_format_value(k)} = {_format_value(v)}" for k, v in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
