"""Commands of the definition: `cutover lint`."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import typer

from cutover.clock import SystemClock
from cutover.definition.checks import change
from cutover.definition.checks.lint import kafka_warnings, warnings
from cutover.definition.compile import fingerprint
from cutover.definition.loading import acceptance_files, catalogue
from cutover.definition.model.pipeline import Pipeline, Sql
from cutover.errors import DefinitionError
from cutover.parity.sql import check_sql
from cutover.settings import Settings, load_settings


def lint(
    pipeline: Annotated[str | None, typer.Argument(help="One pipeline; else all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check definitions without Kafka and Spark. Exit 2 if one cannot be run; warnings leave it at 0."""
    settings = load_settings()
    known = catalogue.load(settings) if pipeline is None else {pipeline: catalogue.get(settings, pipeline)}
    every = known if pipeline is None else catalogue.scan(settings)[0]
    now = SystemClock().now()
    found = {
        name: [*warnings(each), *_lint_rules(settings, each, now), *_lint_sql(each), *_lint_change(each, every)]
        for name, each in known.items()
    }
    if as_json:
        prints = {name: fingerprint.result_fingerprint(definition) for name, definition in known.items()}
        typer.echo(json.dumps({"warnings": found, "fingerprints": prints, "settings": kafka_warnings(settings.kafka)}))
        return
    for name, texts in found.items():
        typer.echo(
            f"{name}: ok, {len(texts)} warning(s), result fingerprint {fingerprint.result_fingerprint(known[name])}"
        )
        for text in texts:
            typer.echo(f"  {text}")
    for text in kafka_warnings(settings.kafka):
        typer.echo(text)
    if known:
        count = sum(map(len, found.values()))
        typer.echo(f"{len(known)} can run, {count} warning(s). Next: `cutover up`, `cutover stream NAME --detach`.")
    else:
        typer.echo(f"No definitions in {settings.pipelines}. `cutover init NAME --from FILE` writes one.")


def _lint_rules(settings: Settings, pipeline: Pipeline, now: datetime) -> list[str]:
    """Return a warning for each rule of acceptance that has expired.

    Raises:
        DefinitionError: A rule's file cannot be read as one.
    """
    found = acceptance_files.load(settings, pipeline)
    if found.problems:
        raise DefinitionError("\n".join(found.problems.values()))
    expired = ((name, rule) for name, rule in found.rules.items() if rule.is_expired(now))
    return [f"rule of acceptance `{name}` has expired, {rule.expires:%Y-%m-%d %H:%M} UTC" for name, rule in expired]


def _lint_change(pipeline: Pipeline, every: Mapping[str, Pipeline]) -> list[str]:
    """Return a warning where the definition that a change note names is not there, or is not what the note says."""
    if pipeline.change is None:
        return []
    old = every.get(pipeline.change.of)
    if old is None:
        return [f"change.of: no definition `{pipeline.change.of}` is there to be compared with."]
    try:
        change.check_pair(pipeline, old)
    except DefinitionError as error:
        return [f"change: cannot be compared: {' '.join(str(error).split())}"]
    return []


def _lint_sql(pipeline: Pipeline) -> list[str]:
    """Return a warning for each construct of a team's SQL on which it and the stream cannot agree."""
    if not isinstance(pipeline.batch, Sql) or pipeline.file is None:
        return []
    text = (pipeline.file.parent / pipeline.batch.file).read_text(encoding="utf-8")
    return [finding.sentence for finding in check_sql(text, pipeline.batch.file)]


COMMANDS = {"lint": lint}
