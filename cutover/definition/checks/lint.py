"""Warnings about a definition that loads: what will work, and may still surprise."""

from dataclasses import replace

from cutover.definition.checks.definition import check
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.expressions.compiler import NEVER
from cutover.definition.measures.kinds import Avg, Sum
from cutover.definition.measures.variance import Variance
from cutover.definition.model.pipeline import Pipeline, Sql
from cutover.definition.model.record_ids import compute_id_horizon
from cutover.definition.model.triggers import waits_for_watermark
from cutover.definition.windows.window_fn import AlignedWindowFn
from cutover.settings import KafkaSettings

UNSAFE = ("class", "callback", "url", "jaas", "interceptor", "password", "library", "plugin")
LOOPBACK = ("127.", "localhost", "[::1]")


def warnings(pipeline: Pipeline) -> list[str]:
    """Return what a reader should know of a pipeline.

    Raises:
        DefinitionError: It cannot be run at all.
    """
    check(pipeline)
    found = (_log_clock, _float_sums, _lateness, _ids, _contract, _failing_pairs, _never_fires, _audit)
    return [text for look in found for text in look(pipeline)]


def kafka_warnings(kafka: KafkaSettings) -> list[str]:
    """Return what is unsafe about the client's settings."""
    found = [
        f"kafka.client: `{key}` can load code, reach elsewhere or show a secret: Kafka commands refuse it."
        for key in sorted(kafka.client)
        if any(word in key.lower() for word in UNSAFE)
    ]
    servers = [server.strip() for server in (kafka.bootstrap_servers or "").split(",") if server.strip()]
    if any(not server.startswith(LOOPBACK) for server in servers) and kafka.protocol in {"PLAINTEXT", "SASL_PLAINTEXT"}:
        found.append(f"kafka.protocol: {kafka.protocol} to another machine: records (and a password) travel readable.")
    return found


def _audit(pipeline: Pipeline) -> list[str]:
    aligned = isinstance(pipeline.window, AlignedWindowFn) and pipeline.window.reach is not None
    if aligned or pipeline.policy.audit is None:
        return []
    text = (
        "policy.audit: no sample of sessions, or of a window over all of time, can be drawn, so the gate stops before "
        "KAPPA. `audit=None` goes without; whoever approves the move is told."
    )
    return [text]


def _log_clock(pipeline: Pipeline) -> list[str]:
    if pipeline.source.log_time is not None:
        return []
    text = (
        "source.log_time: none, so log timestamps are the producer's own (CreateTime), and a wrong clock goes unseen. "
        "Let the topic use message.timestamp.type=LogAppendTime, or bound it by message.timestamp.after.max.ms."
    )
    return [text]


def _float_sums(pipeline: Pipeline) -> list[str]:
    if not isinstance(pipeline.batch, Sql):
        return []
    return [
        f"measures.{name}: a sum of doubles in a team's SQL depends on the order of records in its last digits; it is "
        "compared within a tolerance, which a sum that cancels may miss. CAST to decimal(p,s) makes it exact."
        for name, measure in pipeline.measures.items()
        if isinstance(measure, (Sum, Avg, Variance)) and compile_pipeline(pipeline).measured_type(name) == "double"
    ]


def _lateness(pipeline: Pipeline) -> list[str]:
    if pipeline.lateness.out_of_orderness_micros or pipeline.lateness.allowed_micros:
        return []
    return ["lateness: nothing may be out of order, so every record behind the newest closes its window for the rest."]


def _ids(pipeline: Pipeline) -> list[str]:
    if pipeline.source.record_id is None or pipeline.window.reach is None:
        return []
    id_horizon = compute_id_horizon(replace(pipeline, source=replace(pipeline.source, id_horizon=None)))
    if compute_id_horizon(pipeline) >= id_horizon:
        return []
    text = "source.id_horizon: shorter than a window stays open, so records are late whose window still takes others."
    return [text]


def _contract(pipeline: Pipeline) -> list[str]:
    if any(expectation.severity == "critical" for expectation in pipeline.contract):
        return []
    return ["contract: no critical expectation, so no batch result is ever held back."]


def _failing_pairs(pipeline: Pipeline) -> list[str]:
    if pipeline.join is None:
        return []
    return [
        f"measures.{name}: an expression that fails on a pair (overflow, division by zero) is null there; no record is "
        "malformed for it."
        for name, expression in compile_pipeline(pipeline).measured.items()
        if expression is not None and expression.duckdb_failed != NEVER
    ]


def _never_fires(pipeline: Pipeline) -> list[str]:
    trigger = pipeline.trigger
    if trigger is None or pipeline.window.reach is not None or not waits_for_watermark(trigger):
        return []
    text = f"trigger: {trigger} waits for the end of all time: no pane comes out before "
    return [f"{text}`cutover stream {pipeline.name} --final`."]
