"""Commands of the definition: `cutover lint`."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Annotated

import typer

from cutover.clock import SystemClock
from cutover.definition.checks import change
from cutover.definition.checks.lint import kafka_warnings, warnings
from cutover.definition.compile import fingerprint
from cutover.definition.loading import acceptance_files
from cutover.definition.loading.catalogue import Catalogue, get, read_catalogue
from cutover.definition.model.pipeline import Pipeline, Sql
from cutover.errors import DefinitionError
from cutover.output.cells import visible
from cutover.output.console import Output
from cutover.parity.sql import check_sql
from cutover.settings import Settings, load_settings


def lint(
    pipeline: Annotated[str | None, typer.Argument(help="One pipeline; else all.")] = None,
) -> Output:
    """Check definitions without Kafka and Spark. Exit 2 if one cannot be run; warnings leave it at 0."""
    settings = load_settings()
    catalogue = read_catalogue(settings)
    pipelines = catalogue.pipelines
    selected = pipelines if pipeline is None else {pipeline: get(settings, pipeline)}
    judgement = _judge(settings, selected, pipelines)
    if pipeline is None:
        judgement.problems.update(_name_problems(catalogue))
    return Output(
        document={**asdict(judgement), "settings": kafka_warnings(settings.kafka)},
        lines=_list_lines(settings, judgement),
        warnings=[line for text in dict.fromkeys(judgement.problems.values()) for line in text.split("\n")],
        exit_code=DefinitionError.exit_code if judgement.problems else 0,
    )


@dataclass(frozen=True, slots=True)
class _Judgement:
    """Results of checking each definition."""

    warnings: dict[str, list[str]] = field(default_factory=dict)  # by the name of a pipeline that can run
    fingerprints: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)  # by file, or by pipeline where its rules are broken


def _judge(settings: Settings, selected: Mapping[str, Pipeline], all_pipelines: Mapping[str, Pipeline]) -> _Judgement:
    """Check each pipeline, whatever is wrong with the others."""
    judgement, now = _Judgement(), SystemClock().now()
    for name, pipeline in selected.items():
        try:
            rules = _lint_rules(settings, pipeline, now)
        except DefinitionError as error:
            judgement.problems[name] = str(error)
            continue
        judgement.warnings[name] = [
            *warnings(pipeline),
            *rules,
            *_lint_sql(pipeline),
            *_lint_change(pipeline, all_pipelines),
        ]
        judgement.fingerprints[name] = fingerprint.result_fingerprint(pipeline)
    return judgement


def _name_problems(catalogue: Catalogue) -> dict[str, str]:
    """Return what is wrong with each file that does not load, by its name."""
    return {file.name: "\n".join(map(str, problem)) for file, problem in catalogue.problems_by_file.items()}


def _list_lines(settings: Settings, judgement: _Judgement) -> Iterator[str]:
    """Yield each pipeline that can run with its warnings, and the totals."""
    for name, texts in judgement.warnings.items():
        yield f"{name}: ok, {len(texts)} warning(s), result fingerprint {judgement.fingerprints[name]}"
        yield from (f"  {text}" for text in texts)
    yield from kafka_warnings(settings.kafka)
    totals = f"{len(judgement.warnings)} can run, {sum(map(len, judgement.warnings.values()))} warning(s)"
    if judgement.problems:
        names = ", ".join(map(visible, judgement.problems))
        yield f"{totals}; {len(judgement.problems)} cannot: {names}. Next: correct these, then `cutover lint`."
    elif judgement.warnings:
        yield f"{totals}. Next: `cutover up`, `cutover stream NAME --detach`."
    else:
        yield f"No definitions in {settings.pipelines}. `cutover init NAME --from FILE` writes one."


def _lint_rules(settings: Settings, pipeline: Pipeline, now: datetime) -> list[str]:
    """Return a warning for each rule of acceptance that has expired.

    Raises:
        DefinitionError: A rule's file cannot be read as one.
    """
    rules = acceptance_files.load(settings, pipeline)
    if rules.problems:
        raise DefinitionError("\n".join(rules.problems.values()))
    expired = ((name, rule) for name, rule in rules.rules.items() if rule.is_expired(now))
    return [f"rule of acceptance `{name}` has expired, {rule.expires:%Y-%m-%d %H:%M} UTC" for name, rule in expired]


def _lint_change(pipeline: Pipeline, all_pipelines: Mapping[str, Pipeline]) -> list[str]:
    """Return a warning where the definition that a change note names is not there, or is not what the note says."""
    if pipeline.change is None:
        return []
    old = all_pipelines.get(pipeline.change.of)
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
