"""Warnings about a valid definition whose results may be unexpected."""

from dataclasses import replace

from cutover.definition.checks.definition import check_definition
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.expressions.compiler import NEVER
from cutover.definition.measures.doubles import Variance
from cutover.definition.measures.kinds import Avg, Sum
from cutover.definition.model.batch_job import find_batch_job
from cutover.definition.model.pipeline import Pipeline, Sql
from cutover.definition.model.record_ids import compute_id_horizon
from cutover.definition.model.triggers import waits_for_watermark
from cutover.definition.windows.window_fn import AlignedWindowFn
from cutover.settings import KafkaSettings

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
