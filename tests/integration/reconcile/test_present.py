"""Current comparison of a pipeline: only the latest cut counts, and an empty comparison is no agreement."""

import shutil
from dataclasses import replace
from datetime import timedelta

import pytest
from deltalake import DeltaTable

from cutover.cli.app import main
from cutover.clock import Point, SystemClock
from cutover.errors import LakeError
from cutover.lake.control import pins, restore, versions
from cutover.lake.journal import Journal
from cutover.pipeline_lake import PipelineLake, control_uri
from cutover.reconcile.gate import evidence
from cutover.reconcile.journal_rows import DifferenceEvent
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.reconcile.verdict import history, records
from cutover.reconcile.verify.record import verify_pipeline
from cutover.reconcile.watch.alerts.catalogue import list_firing
from cutover.reconcile.watch.collector import FactCollector
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import (
    CLOSED_UNTIL,
    PIPELINE,
    START,
    Lake,
    Sale,
    edit_batch_row,
    lake_of,
    reconcile,
    replace_batch,
    write,
)
from tests.support.history.journal_rows import make_row, record_stage

SALES = tuple(Sale(epoch=i % 3, hour=i % 7, amount=i) for i in range(21))
OLD = 1


def spoil(lake: Lake) -> Lake:
    return edit_batch_row(lake, 0, lambda row: row | {"most": 4711})


@pytest.fixture
def diverged(settings: Settings) -> Report:
    """Return the comparison at the newest cut, of a batch that is wrong; an older cut agrees."""
    old, new = lake_of([sale for sale in SALES if sale.epoch <= OLD]), lake_of(SALES)
    write(settings, replace(new, batch=old.batch, run=old.run))
    run = replace(new.run, run_id="batch-2", finished="2026-01-06T00:00:00Z")
    replace_batch(settings, replace(spoil(new), run=run))
    return reconcile(PipelineLake(settings, PIPELINE))


def firing(settings: Settings) -> set[str]:
    limits = settings.alerts.model_copy(update={"batch_schedules": 1e9})
    facts = FactCollector(
        PipelineLake(settings.model_copy(update={"alerts": limits}), PIPELINE), SystemClock()
    ).collect()
    return {alert.name for alert in list_firing(facts)}


def latest(settings: Settings) -> str:
    return (settings.reports_dir / PIPELINE.name / "latest.html").read_text(encoding="utf-8")


def page(settings: Settings, result: Report) -> str:
    return (settings.reports_dir / str(result.run.page)).read_text(encoding="utf-8")


@pytest.mark.parametrize("scope", ["older cut", "range", "older cut again"])
def test_an_older_cut_or_a_range_changes_nothing_of_what_stands(
    settings: Settings, diverged: Report, scope: str
) -> None:
    lake = PipelineLake(settings, PIPELINE)
    if scope == "range":
        later = reconcile(lake, start=START + timedelta(hours=5))
    else:
        later = [reconcile(lake, epoch=OLD) for _ in range(1 + scope.endswith("again"))][-1]

    newest = history.find_current_comparison(lake)
    assert (diverged.finding.verdict, later.finding.verdict, later.finding.exit_code) == (
        Verdict.DIVERGED,
        Verdict.CONSISTENT,
        0,
    )
    assert newest is not None
    assert (newest.run_id, len(history.read_open_differences(lake))) == (diverged.run.run_id, 1)
    assert f"run {diverged.run.run_id} at epoch 2: DIVERGED" in str(later.run.scope_note)
    assert "DivergenceUnexplained" in firing(settings)
    assert latest(settings) == page(settings, diverged) != page(settings, later)


def test_the_same_windows_compared_again_at_the_same_cut_end_it(settings: Settings, diverged: Report) -> None:
    mended = lake_of(SALES)
    replace_batch(settings, replace(mended, run=replace(mended.run, run_id="b3", finished="2026-01-07T00:00:00Z")))

    lake = PipelineLake(settings, PIPELINE)
    second_report = reconcile(lake)

    assert (diverged.finding.verdict, second_report.finding.verdict, second_report.run.scope_note) == (
        Verdict.DIVERGED,
        Verdict.CONSISTENT,
        None,
    )
    assert history.read_open_differences(lake) == {}
    assert "DivergenceUnexplained" not in firing(settings)
    assert latest(settings) == page(settings, second_report)


def test_the_newest_cut_is_compared_though_batch_computed_an_older_one_last(settings: Settings) -> None:
    old, new = lake_of([sale for sale in SALES if sale.epoch <= OLD]), lake_of(SALES)
    write(settings, new)
    replace_batch(settings, replace(old, run=replace(old.run, run_id="late", finished="2026-01-09T00:00:00Z")))

    assert reconcile(PipelineLake(settings, PIPELINE)).finding.seal.epoch == new.run.epoch


def test_a_repeat_is_a_repeat_of_its_line(settings: Settings) -> None:
    write(settings, lake_of(SALES))
    lake = PipelineLake(settings, PIPELINE)
    first_report, second = reconcile(lake), reconcile(lake)

    (line,) = records.read_comparisons(settings, PIPELINE.name)
    assert (line.times, second.run.repeats, second.run.run_id, second.run.at) == (
        2,
        1,
        first_report.run.run_id,
        first_report.run.at,
    )
    assert len(list((settings.reports_dir / PIPELINE.name).glob("*.json"))) == 1


def test_a_contradiction_at_the_same_cut_is_a_verdict_of_its_own(settings: Settings) -> None:
    lake = lake_of(SALES)
    write(settings, lake)
    pipeline_lake = PipelineLake(settings, PIPELINE)
    reconcile(pipeline_lake)
    replace_batch(settings, replace(spoil(lake), run=replace(lake.run, run_id="b2", finished="2026-01-06T00:00:00Z")))

    report = reconcile(pipeline_lake)

    verdicts = [line.verdict for line in records.read_comparisons(settings, PIPELINE.name)]
    assert (report.run.scope_note, verdicts) == (None, [Verdict.CONSISTENT, Verdict.DIVERGED])
    assert "DivergenceUnexplained" in firing(settings)


def test_a_run_that_ends_late_speaks_for_its_cut_alone(settings: Settings, diverged: Report) -> None:
    """An older cut is compared; before it is recorded, the newest is compared again."""
    reports: list[Report] = []

    lake = PipelineLake(settings, PIPELINE)

    def overtake(point: Point, epoch: int) -> None:  # noqa: ARG001 -- the probe's names
        if point == "report.rendered" and not reports:
            reports.append(diverged)
            reports.append(reconcile(lake))

    late = reconcile(lake, epoch=OLD, probe=overtake)

    newest = history.find_current_comparison(lake)
    assert newest is not None
    assert (newest.run_id, newest.times, late.run.scope_note is None) == (diverged.run.run_id, 2, False)
    assert latest(settings) == page(settings, reports[1])


def test_a_report_without_a_verdict_row_is_not_listed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class KilledError(BaseException):
        """The process ends here."""

    def killed(*_: object) -> None:
        raise KilledError

    monkeypatch.setattr("cutover.reconcile.cli.reconcile.load_settings", lambda: settings)
    monkeypatch.setattr("cutover.definition.loading.catalogue.get", lambda *_: PIPELINE)
    write(settings, lake_of(SALES))
    assert main(["report", "sales"]) == 2
    monkeypatch.setattr(history, "record_comparison", killed)
    with pytest.raises(KilledError):
        reconcile(PipelineLake(settings, PIPELINE))

    assert len(list((settings.reports_dir / PIPELINE.name).glob("*.html"))) == 1
    assert (main(["report", "sales"]), main(["report", "sales", "--all"])) == (2, 2)
    assert "expected one in" in capsys.readouterr().err


def make_malformed_lake(count: int) -> Lake:
    """Return a lake whose records are all malformed."""
    lake = lake_of([Sale()])
    positions = [{"partition": 0, "offset": n, "event_time": None, "reason": "type"} for n in range(count)]
    row = {"_kind": "ledger", "_epoch": 0, "_class": "malformed", "_n": count, "_unknown": 0, "_positions": positions}
    record = replace(lake.epochs[0], end={0: count}, records=count, counts={"malformed": count}, watermark_after=None)
    run = replace(lake.run, cut={0: count}, scanned={0: (0, count)}, watermark=None, computed=())
    return replace(lake, partials=(row,), epochs=(record,), batch=(), run=run)


EMPTY = {
    "all malformed": (make_malformed_lake(12), {}, "no record of 12 that counts: 12 malformed", "cutover sql sales"),
    "open windows": (
        lake_of([Sale(hour=CLOSED_UNTIL - 1)]),
        {},
        "1 open one alone (watermark: 2026-01-05 04:00",
        "cutover stream sales --final",
    ),
    "empty range": (
        lake_of(SALES),
        {"start": START + timedelta(hours=50)},
        "none that starts at or after 2026-01-03T02:00:00Z",
        "`cutover reconcile sales` compares all",
    ),
}


@pytest.mark.parametrize("case", EMPTY)
def test_nothing_compared_is_not_comparable_with_reason_and_next_command(settings: Settings, case: str) -> None:
    lake, options, reason, following = EMPTY[case]
    write(settings, lake)

    report = reconcile(PipelineLake(settings, PIPELINE), **options)

    (breach,) = report.finding.seal.breaches
    assert (report.finding.verdict, report.finding.exit_code, breach.code) == (Verdict.NOT_COMPARABLE, 2, "nothing")
    assert (reason in breach.message, following in breach.message) == (True, True), breach.message
    assert ("NotComparable" in firing(settings)) is (case != "empty range")
    assert "\N{CHECK MARK}" not in page(settings, report)


def test_differences_of_a_killed_run_do_not_stay(settings: Settings) -> None:
    write(settings, lake_of(SALES))
    fingerprint = lake_of(SALES).run.result_fingerprint
    values = {"pipeline": PIPELINE.name, "result_fingerprint": fingerprint, "run_id": "killed", "at": START}
    place = {"window_start": START, "key": "{}", "kind": "changed", "cause": "unexplained", "state": "open"}
    Journal(settings, PIPELINE.name, DifferenceEvent).append(make_row(DifferenceEvent, **values, **place))

    assert history.read_open_differences(PipelineLake(settings, PIPELINE)) == {}


@pytest.mark.parametrize("table", ["gate", "reconciliations", "differences", "pins"])
def test_rows_that_were_removed_from_a_control_table_are_named_and_come_back(
    settings: Settings, diverged: Report, table: str
) -> None:
    lake = PipelineLake(settings, PIPELINE)
    record_stage(lake, "LAMBDA", event="rolled_back", at=START)
    (version,) = versions.list_stream_versions(lake)
    pins.pin(settings, version, 0, holder="a", expires_at=START, now=START)
    handle = DeltaTable(control_uri(settings, table))
    handle.delete()
    verified = verify_pipeline(lake, only=["N9"])

    report = reconcile(lake)

    (breach,) = report.finding.seal.breaches
    assert (diverged.finding.verdict, report.finding.verdict, report.finding.runbook) == (
        Verdict.DIVERGED,
        Verdict.NOT_COMPARABLE,
        "ForeignWrite",
    )
    assert f"_control/{table}" in breach.message
    assert "`cutover restore-control` restores the missing rows" in breach.message
    assert f"table version {handle.version()}, DELETE by" in breach.message
    assert [table in violation.text for violation in verified.violations] == [True]

    list(restore.restore(settings))

    assert reconcile(lake).finding.verdict is Verdict.DIVERGED


def test_a_restore_brings_removed_rows_of_a_control_table_back(settings: Settings) -> None:
    write(settings, lake_of(SALES))
    lake = PipelineLake(settings, PIPELINE)
    record_stage(lake, "LAMBDA", event="rolled_back", at=START)
    handle = DeltaTable(control_uri(settings, "gate"))
    version_before = handle.version()
    handle.delete()
    without = reconcile(lake).finding.verdict

    handle.restore(version_before)

    assert (without, reconcile(lake).finding.verdict) == (Verdict.NOT_COMPARABLE, Verdict.CONSISTENT)


def test_nothing_is_compared_where_rows_of_versions_were_removed_until_they_are_back(settings: Settings) -> None:
    write(settings, lake_of(SALES))
    handle = DeltaTable(control_uri(settings, "versions"))
    version_before = handle.version()
    handle.delete()

    lake = PipelineLake(settings, PIPELINE)
    with pytest.raises(LakeError, match="Table `versions` of `sales`: expected every committed row") as refused:
        reconcile(lake)
    handle.restore(version_before)

    assert (refused.value.runbook, reconcile(lake).finding.verdict) == (
        "ForeignWrite",
        Verdict.CONSISTENT,
    )


def test_a_history_whose_folder_is_gone_is_none_that_just_begins(settings: Settings, diverged: Report) -> None:
    shutil.rmtree(control_uri(settings, "reconciliations"))

    with pytest.raises(LakeError, match="_control/reconciliations`: expected it next to the other") as refused:
        reconcile(PipelineLake(settings, PIPELINE))

    assert (diverged.finding.verdict, refused.value.runbook) == (Verdict.DIVERGED, "ForeignWrite")
    assert "ForeignWrite" in firing(settings)


@pytest.mark.parametrize("table", ["differences", "verifications", "proofs"])
def test_nothing_is_compared_beside_a_control_table_that_is_gone(
    settings: Settings, diverged: Report, table: str
) -> None:
    shutil.rmtree(control_uri(settings, table))

    report = reconcile(PipelineLake(settings, PIPELINE))

    (breach,) = report.finding.seal.breaches
    assert (diverged.finding.verdict, report.finding.verdict, breach.runbook) == (
        Verdict.DIVERGED,
        Verdict.NOT_COMPARABLE,
        "ForeignWrite",
    )
    assert f"_control/{table}`: expected it next to the other control tables" in breach.message
    assert "ForeignWrite" in firing(settings)


def verify_tables(settings: Settings) -> str:
    """Return what `verify --only N9` says of the tables."""
    verification = verify_pipeline(PipelineLake(settings, PIPELINE), only=["N9"])
    return verification.error or " ".join(violation.text for violation in verification.violations)


@pytest.mark.parametrize("removed", ["/stream-0", "/stream-0/stream", "/batch", "/batch_index", ""])
def test_a_table_of_the_pipeline_that_is_gone_is_named_by_all(settings: Settings, removed: str) -> None:
    write(settings, lake_of(SALES))
    lake = PipelineLake(settings, PIPELINE)
    report_before = reconcile(lake)
    shutil.rmtree(f"{lake.version_uri()}{removed}")

    report = reconcile(lake)

    (breach,) = report.finding.seal.breaches
    assert (report_before.finding.verdict, report.finding.verdict, breach.runbook) == (
        Verdict.CONSISTENT,
        Verdict.NOT_COMPARABLE,
        "ForeignWrite",
    )
    assert "expected it to exist" in breach.message
    assert "ForeignWrite" in firing(settings)
    assert any("its folder is gone" in reason for reason in evidence.read_evidence(lake, SystemClock().now()).foreign)
    assert "its folder is gone" in verify_tables(settings)
