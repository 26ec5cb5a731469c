"""Commands of the definition: `cutover lint`."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Annotated

import typer

from cutover import acceptance_files
from cutover.clock import SystemClock
from cutover.counts import count_noun
from cutover.definition.checks import change
from cutover.definition.checks.lint import kafka_warnings, warnings
from cutover.definition.compile import fingerprint
from cutover.definition.loading.catalogue import Catalogue, get, read_catalogue
from cutover.definition.model.pipeline import Pipeline, Sql
from cutover.errors import DefinitionError
from cutover.output.cells import visible
from cutover.output.console import Output
from cutover.parity.sql import check_sql
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings, load_settings


def lint(
    pipeline: Annotated[str | None, typer.Argument(help="One pipeline; else all.")] = None,
) -> Output:
    """Check definitions without Kafka and Spark. Exit 2 if one cannot be run; warnings leave it at 0."""
    settings = load_settings()
    catalogue = read_catalogue(settings)
    pipelines = catalogue.pipelines
    selected = pipelines if pipeline is None else {pipeline: get(settings, pipeline)}
    results = _lint_pipelines(settings, selected, pipelines)
    if pipeline is None:
        results.problems.update(_name_problems(catalogue))
    return Output(
        document={**asdict(results), "settings": kafka_warnings(settings.kafka)},
        lines=_list_lines(settings, results),
        warnings=[line for text in dict.fromkeys(results.problems.values()) for line in text.split("\n")],
        exit_code=DefinitionError.exit_code if results.problems else 0,
    )


@dataclass(frozen=True, slots=True)
class _LintResults:
    """Results of linting each definition."""

    warnings: dict[str, list[str]] = field(default_factory=dict)  # valid pipeline -> warnings
    fingerprints: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)  # file, or pipeline with invalid rules -> problem


def _lint_pipelines(
    settings: Settings, selected: Mapping[str, Pipeline], all_pipelines: Mapping[str, Pipeline]
) -> _LintResults:
    """Lint each pipeline independently of the others."""
    results, now = _LintResults(), SystemClock().now()
    for name, pipeline in selected.items():
        try:
            rules = _lint_rules(PipelineLake(settings, pipeline), now)
        except DefinitionError as error:
            results.problems[name] = str(error)
            continue
        results.warnings[name] = [
            *warnings(pipeline),
            *rules,
            *_lint_sql(pipeline),
            *_lint_change(pipeline, all_pipelines),
        ]
        results.fingerprints[name] = fingerprint.result_fingerprint(pipeline)
    return results


def _name_problems(catalogue: Catalogue) -> dict[str, str]:
    """Map the name of each file that does not load to its problems."""
    return {file.name: "\n".join(map(str, problem)) for file, problem in catalogue.problems_by_file.items()}


def _list_lines(settings: Settings, results: _LintResults) -> Iterator[str]:
    """Yield each valid pipeline with its warnings, and the totals."""
    for name, texts in results.warnings.items():
        yield f"{name}: ok, {count_noun(len(texts), 'warning')}, result fingerprint {results.fingerprints[name]}"
        yield from (f"  {text}" for text in texts)
    yield from kafka_warnings(settings.kafka)
    warning_count = count_noun(sum(map(len, results.warnings.values())), "warning")
    totals = f"{len(results.warnings)} can run, {warning_count}"
    if results.problems:
        names = ", ".join(map(visible, results.problems))
        yield f"{totals}; {len(results.problems)} cannot: {names}. Next: correct these, then `cutover lint`."
    elif results.warnings:
        yield f"{totals}. Next: `cutover up`, `cutover stream {next(iter(results.warnings))} --detach`."
    else:
        yield f"No definitions in `{settings.pipelines}`. `cutover init NAME --from FILE` writes one."


def _lint_rules(lake: PipelineLake, now: datetime) -> list[str]:
    """List a warning for each expired acceptance rule.

    Raises:
        DefinitionError: A rule's file is invalid.
    """
    rules = acceptance_files.load_acceptance_rules(lake)
    if rules.problems:
        raise DefinitionError("\n".join(rules.problems.values()))
    expired = ((name, rule) for name, rule in rules.rules.items() if rule.is_expired(now))
    return [f"acceptance rule `{name}` has expired, {rule.expires:%Y-%m-%d %H:%M} UTC" for name, rule in expired]


def _lint_change(pipeline: Pipeline, all_pipelines: Mapping[str, Pipeline]) -> list[str]:
    """List a warning if the definition in a change note does not exist, or does not match the note."""
    if pipeline.change is None:
        return []
    old = all_pipelines.get(pipeline.change.of)
    if old is None:
        return [f"change.of: the definition `{pipeline.change.of}` does not exist."]
    try:
        change.check_pair(pipeline, old)
    except DefinitionError as error:
        return [f"change: cannot be compared: {' '.join(str(error).split())}"]
    return []


def _lint_sql(pipeline: Pipeline) -> list[str]:
    """List a warning for each construct of a team's SQL on which it and the stream differ."""
    if not isinstance(pipeline.batch, Sql) or pipeline.file is None:
        return []
    text = (pipeline.file.parent / pipeline.batch.file).read_text(encoding="utf-8")
    return [finding.sentence for finding in check_sql(text, pipeline.batch.file)]


COMMANDS = {"lint": lint}
