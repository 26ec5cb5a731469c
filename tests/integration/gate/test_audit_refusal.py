"""The gate's audit condition one step before KAPPA: a daily sample must be able to detect what the policy requires."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cutover.clock import SystemClock
from cutover.definition import Audit, Count, Daily, Fixed, Global, Monthly, Pipeline, Policy, Sessions, Sliding
from cutover.definition.windows.kinds import Window
from cutover.definition.windows.window_fn import AlignedWindowFn
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import batch_ledger_schema
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.audit import window_sample
from cutover.reconcile.audit.window_sample import (
    _measure_gap,
    audit_windows,
    describe_audit,
    describe_next_step,
    find_audit_problem,
    find_population,
)
from cutover.reconcile.gate import evidence
from cutover.reconcile.result.finding import PolicyResult, Windows
from cutover.reconcile.result.text import THIN
from cutover.reconcile.verdict import history
from cutover.reconcile.verdict.history import AuditState
from cutover.reconcile.verdict.statistics import DAY
from cutover.settings import LineageSettings, Settings
from tests.integration.reconcile.lake_of import PIPELINE, Sale, lake_of, write
from tests.support.history.audits import make_audit
from tests.support.history.journal_rows import record_stage
from tests.support.history.reconciliations import flights
from tests.support.history.reports import change_report

HOURS = 72
MINUTE = 60_000_000
SALES = tuple(
    Sale(epoch=0, hour=hour, shop=shop, desk=desk, amount=3)
    for hour in range(HOURS)
    for shop in ("a", "b", None)
    for desk in (1, None)
)
AUDITED = make_audit(PIPELINE.name)


@pytest.fixture
def sales(kafka_settings: Settings, topic_name: str) -> Pipeline:
    """Three days of hourly windows with six rows each, of a topic that keeps everything."""
    return make_pipeline_with_log(kafka_settings, topic_name, retention_ms="-1")


def make_pipeline_with_log(settings: Settings, topic: str, *, retention_ms: str) -> Pipeline:
    """Create a topic that keeps records for `retention_ms` milliseconds, and the tables."""
    LogClient(settings).create_topic(topic, partitions=1, config={"retention.ms": retention_ms})
    pipeline = replace(PIPELINE, source=replace(PIPELINE.source, name=topic))
    write(settings, lake_of(SALES, pipeline), pipeline)
    delta.ensure(PipelineLake(settings, pipeline).batch_uri("batch_ledger"), batch_ledger_schema(pipeline))
    return pipeline


@pytest.mark.quick
def test_enough_windows_are_no_refusal(kafka_settings: Settings, sales: Pipeline) -> None:
    assert find_audit_problem(PipelineLake(kafka_settings, sales)) is None


@pytest.mark.quick
def test_a_fault_that_no_sample_finds_is_refused_with_what_is_missing(
    kafka_settings: Settings, sales: Pipeline
) -> None:
    tiny = replace(sales, policy=Policy(audit=Audit(share=1e-5)))

    refusal = find_audit_problem(PipelineLake(kafka_settings, tiny))

    assert refusal is not None
    assert "final windows in 7 days (a fault in 0.001 % of the rows" in refusal


@pytest.mark.quick
@pytest.mark.parametrize("window", [Sessions(gap="30 minutes"), Global()], ids=["sessions", "global"])
def test_windows_that_cannot_be_sampled_are_refused_unless_the_policy_goes_without(
    settings: Settings, window: Window
) -> None:
    other = replace(PIPELINE, window=window, measures={"sales": Count()})

    refusal = find_audit_problem(PipelineLake(settings, other))

    assert refusal is not None
    assert "expected windows at fixed times" in refusal
    assert find_audit_problem(PipelineLake(settings, replace(other, policy=Policy(audit=None)))) is None


@pytest.mark.quick
def test_a_log_that_lets_go_too_early_is_refused(kafka_settings: Settings, topic_name: str) -> None:
    refusal = find_audit_problem(
        PipelineLake(kafka_settings, make_pipeline_with_log(kafka_settings, topic_name, retention_ms="3600000"))
    )

    assert refusal is not None
    assert f"it keeps them for 1{THIN}h" in refusal


def test_the_gate_looks_one_step_before_kappa_alone(kafka_settings: Settings, sales: Pipeline) -> None:
    lake = PipelineLake(kafka_settings, sales)
    audit_refusal = evidence.read_evidence(lake, SystemClock().now()).audit_refusal
    record_stage(lake, "SHADOW")

    assert (audit_refusal, evidence.read_evidence(lake, SystemClock().now()).audit_refusal) == (
        "not evaluated before SHADOW",
        None,
    )


@pytest.mark.quick
def test_an_audit_without_a_new_window_says_so_and_is_not_kept(
    kafka_settings: Settings, sales: Pipeline, tmp_path: Path
) -> None:
    lake = PipelineLake(kafka_settings, sales)
    end_of_population = find_population(lake, ()).range_end
    history.record_audit(lake, replace(AUDITED, until=end_of_population))

    heard = kafka_settings.model_copy(update={"lineage": LineageSettings(file=tmp_path / "told.jsonl")})
    window_audit = audit_windows(PipelineLake(heard, sales), seed=1, clock=SystemClock())

    (_, ended_event) = map(json.loads, (tmp_path / "told.jsonl").read_text(encoding="utf-8").splitlines())
    assert ended_event["job"]["name"] == f"{sales.name}.audit"
    assert ended_event["run"]["facets"]["cutover_result"]["state"] == str(AuditState.NOTHING_NEW)
    assert (window_audit.state, window_audit.exit_code, window_audit.windows) == (AuditState.NOTHING_NEW, 0, ())
    assert (
        list(describe_audit(window_audit)),
        "became final" in describe_next_step(window_audit, rolled_back=False),
    ) == (
        [],
        True,
    )
    assert len(history.list_audits(lake)) == 1


@pytest.mark.quick
def test_windows_that_were_wrong_stay_so_until_each_was_computed_again(
    kafka_settings: Settings, sales: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = PipelineLake(kafka_settings, sales)
    population = find_population(lake, ())
    wrong = replace(AUDITED, state=AuditState.REGRESSION, until=population.range_end, wrong=(max(population.rows),))
    history.record_audit(lake, wrong)
    agrees = change_report(flights(), differences=(), policy=PolicyResult())
    compared_counts = iter((0, 1))
    monkeypatch.setattr(
        window_sample,
        "_compare",
        lambda *_: change_report(agrees, windows=Windows(compared=next(compared_counts))).finding,
    )

    unseen = audit_windows(lake, seed=1, clock=SystemClock())
    assert (unseen.state, unseen.windows) == (AuditState.NOT_COMPARABLE, wrong.wrong)
    assert history.find_open_regression(lake) is not None

    assert audit_windows(lake, seed=1, clock=SystemClock()).state is AuditState.AGREES
    assert history.find_open_regression(lake) is None


@pytest.mark.parametrize(
    ("window", "gap"),
    [
        (Fixed(minutes=20), 20 * MINUTE),
        (Sliding(size="1 hour", every="20 minutes"), 20 * MINUTE),
        (Daily(zone="Europe/Berlin"), 25 * 60 * MINUTE),
        (Monthly(zone="Europe/Berlin"), (31 * 24 + 1) * 60 * MINUTE),
    ],
)
@pytest.mark.parametrize("days", [0, 5, 29, 200])
def test_how_many_windows_there_are_does_not_hang_on_the_day(window: Window, gap: int, days: int) -> None:
    assert isinstance(window, AlignedWindowFn)

    assert _measure_gap(window, 1_760_000_000_000_000 + days * DAY) == gap
