"""Command `cutover lint`: checks definitions, and warns about valid ones whose results may be unexpected."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Annotated

import typer

from cutover import acceptance_files
from cutover.clock import SystemClock
from cutover.counts import count_noun
from cutover.definition.checks import change
from cutover.definition.checks.definition import check_definition
from cutover.definition.compile import fingerprint
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.expressions.compiler import NEVER
from cutover.definition.loading.catalogue import Catalogue, get, read_catalogue
from cutover.definition.measures.doubles import Variance
from cutover.definition.measures.kinds import Avg, Sum
from cutover.definition.model.batch_job import find_batch_job
from cutover.definition.model.pipeline import Pipeline, Sql, compute_id_horizon
from cutover.definition.model.triggers import waits_for_watermark
from cutover.definition.windows.window_fn import AlignedWindowFn
from cutover.errors import DefinitionError
from cutover.output.cells import visible
from cutover.output.console import Output
from cutover.parity.rules import check_sql
from cutover.pipeline_lake import PipelineLake
from cutover.settings import KafkaSettings, Settings, load_settings

UNSAFE = ("class", "callback", "url", "jaas", "interceptor", "password", "library", "plugin")
MAX_COPIES = 2
"""Windows in which a record of an interval join is stored without a warning."""
LOOPBACK = ("127.", "localhost", "[::1]")


def warnings(pipeline: Pipeline) -> list[str]:
    """List the warnings about a pipeline.

    Raises:
        DefinitionError: The definition is invalid.
    """
    check_definition(pipeline)
    rules = (
        _warn_of_log_clock,
        _warn_of_float_sums,
        _warn_of_lateness,
        _warn_of_batch_job,
        _warn_of_id_horizon,
        _warn_of_contract,
        _warn_of_failing_pairs,
        _warn_of_short_windows,
        _warn_of_trigger,
        _warn_of_audit,
    )
    return [text for rule in rules for text in rule(pipeline)]


def kafka_warnings(kafka: KafkaSettings) -> list[str]:
    """List the unsafe settings of the Kafka client."""
    warnings_of_client = [
        f"kafka.client: `{key}` can load code, open other connections or show a secret: Kafka commands reject it."
        for key in sorted(kafka.client)
        if any(word in key.lower() for word in UNSAFE)
    ]
    servers = [server.strip() for server in (kafka.bootstrap_servers or "").split(",") if server.strip()]
    if any(not server.startswith(LOOPBACK) for server in servers) and kafka.protocol in {"PLAINTEXT", "SASL_PLAINTEXT"}:
        text = f"kafka.protocol: {kafka.protocol} to another machine: records (and a password) are sent unencrypted."
        warnings_of_client.append(text)
    return warnings_of_client


def _warn_of_audit(pipeline: Pipeline) -> list[str]:
    can_sample = isinstance(pipeline.window, AlignedWindowFn) and pipeline.window.reach is not None
    if can_sample or pipeline.policy.audit is None:
        return []
    text = (
        "policy.audit: sessions and the global window cannot be sampled, so the gate stops before "
        "KAPPA. `audit=None` moves without a sample, which the approval states."
    )
    return [text]


def _warn_of_log_clock(pipeline: Pipeline) -> list[str]:
    if pipeline.source.log_time is not None:
        return []
    text = (
        "source.log_time: none, so log timestamps come from producers (CreateTime); a wrong clock is not detected. "
        "Set message.timestamp.type=LogAppendTime on the topic, or limit it by message.timestamp.after.max.ms."
    )
    return [text]


def _warn_of_float_sums(pipeline: Pipeline) -> list[str]:
    if not isinstance(pipeline.batch, Sql):
        return []
    return [
        f"measures.{name}: a sum of doubles in a team's SQL depends on the order of records in its last digits; it is "
        "compared within a tolerance, which a sum that cancels may miss. CAST to decimal(p,s) makes it exact."
        for name, measure in pipeline.measures.items()
        if isinstance(measure, (Sum, Avg, Variance)) and compile_pipeline(pipeline).measured_type(name) == "double"
    ]


def _warn_of_lateness(pipeline: Pipeline) -> list[str]:
    if pipeline.stream is not None or pipeline.lateness.out_of_orderness_micros or pipeline.lateness.allowed_micros:
        return []
    return ["lateness: records may not be out of order, so each record closes all windows that end before it."]


def _warn_of_batch_job(pipeline: Pipeline) -> list[str]:
    if find_batch_job(pipeline.batch) is None or pipeline.stream is not None:
        return []
    text = (
        f"lateness.max_ahead: {pipeline.lateness.max_ahead}; records whose event time is further ahead of their log "
        "time count in no window. If your batch job counts them, its table differs: raise it, at most to `36500 days`."
    )
    return [text]


def _warn_of_id_horizon(pipeline: Pipeline) -> list[str]:
    if pipeline.source.record_id is None or pipeline.window.reach is None:
        return []
    id_horizon = compute_id_horizon(replace(pipeline, source=replace(pipeline.source, id_horizon=None)))
    if compute_id_horizon(pipeline) >= id_horizon:
        return []
    text = "source.id_horizon: shorter than a window stays open, so records can be late although their window is open."
    return [text]


def _warn_of_contract(pipeline: Pipeline) -> list[str]:
    if any(expectation.severity == "critical" for expectation in pipeline.contract):
        return []
    return ["contract: no critical expectation, so no batch result is ever rejected."]


def _warn_of_failing_pairs(pipeline: Pipeline) -> list[str]:
    if pipeline.join is None:
        return []
    return [
        f"measures.{name}: an expression that fails on a pair (overflow, division by zero) is null there; no record is "
        "malformed because of it."
        for name, expression in compile_pipeline(pipeline).measured.items()
        if expression is not None and expression.duckdb_failed != NEVER
    ]


def _warn_of_short_windows(pipeline: Pipeline) -> list[str]:
    copies = pipeline.window.max_windows
    if compile_pipeline(pipeline).interval is None or copies <= MAX_COPIES:
        return []
    text = f"window: shorter than the range of `join.between`, so each record is stored in up to {copies} windows; use "
    return [text + "longer windows."]


def _warn_of_trigger(pipeline: Pipeline) -> list[str]:
    trigger = pipeline.trigger
    if trigger is None or pipeline.window.reach is not None or not waits_for_watermark(trigger):
        return []
    text = f"trigger: {trigger} waits for the end of all time: no pane is emitted before "
    return [f"{text}`cutover stream {pipeline.name} --final`."]


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
