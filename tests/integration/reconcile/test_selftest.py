"""The reconciler tested on copies: rates and their bounds, a broken one found out, served tables left as they are."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from cutover.cli import app
from cutover.clock import SystemClock
from cutover.definition import Count, Max, Pipeline, Sessions
from cutover.errors import LakeError
from cutover.lake.tables import checksums, commits, data_files, delta
from cutover.lake.tables.schemas import RowKind
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution.cells import ROWS_AT_MOST
from cutover.reconcile.compare import ComparisonRequest, compare_at_cut
from cutover.reconcile.journal_rows import find_newest_self_test
from cutover.reconcile.report import page
from cutover.reconcile.result.finding import Cause, Finding, Verdict, place_of
from cutover.reconcile.result.measurements import SelfTest
from cutover.reconcile.result.parts import rate
from cutover.reconcile.selftest import copied_lake, trials
from cutover.reconcile.selftest.copied_lake import PlantSide
from cutover.reconcile.selftest.plants import ROW_KINDS, Plant, PlantedRow, draw_row_plants
from cutover.reconcile.selftest.trials import evaluate_trial, self_test
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import PIPELINE, Lake, Sale, lake_of, log_of_lake, reconcile, write
from tests.support.history.self_tests import record_passed
from tests.support.log.held_log import HeldLog

SALES = (
    *(
        Sale(epoch=epoch, hour=hour, shop=shop, desk=desk, amount=hour * 3 + epoch + 7 * (desk or 0))
        for epoch in range(3)
        for hour in range(40)
        for shop in ("a", "b", None)
        for desk in (1, None)
    ),
    *(Sale(epoch=2, hour=hour, shop="a", desk=1, amount=3, kind="late") for hour in (5, 9, 20)),
)
KINDS = {kind.name for kind in ROW_KINDS}


@pytest.fixture
def lake(settings: Settings) -> Lake:
    lake_content = lake_of(SALES)
    write(settings, lake_content)
    return lake_content


def self_tested(
    settings: Settings, lake: Lake, *, seed: int = 1, trials: int = 12, pipeline: Pipeline = PIPELINE
) -> SelfTest:
    log: HeldLog = log_of_lake(lake)
    return self_test(PipelineLake(settings, pipeline), seed=seed, trials=trials, clock=SystemClock(), log=log)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_all_that_was_planted_is_found_and_named_and_nothing_else(settings: Settings, lake: Lake) -> None:
    contents_before = contents(settings.home)

    self_test = self_tested(settings, lake, trials=16)

    assert self_test.failures == ()
    assert (self_test.detection_rate.hits, self_test.right_cause_rate.hits) == (
        self_test.detection_rate.of,
        self_test.right_cause_rate.of,
    )
    assert (self_test.false_alarm_rate.hits, self_test.passed) == (0, self_test.false_alarm_rate.of >= 1_000)
    assert len({*self_test.by_kind} & KINDS) > len(KINDS) / 2
    assert contents(settings.home) == contents_before


def test_rows_that_a_report_would_leave_out_are_judged_too(settings: Settings) -> None:
    rows = [(hour, shop, desk) for hour in range(97) for shop in ("a", "b", None) for desk in (1, None)]
    late = rows[20:]
    lake = lake_of(
        [
            *(Sale(epoch=0, hour=hour, shop=shop, desk=desk, amount=5) for hour, shop, desk in rows),
            *(Sale(epoch=1, hour=hour, shop=shop, desk=desk, amount=3, kind="late") for hour, shop, desk in late),
        ]
    )
    write(settings, lake)

    self_test = self_tested(settings, lake, trials=10)

    assert len(late) > ROWS_AT_MOST
    assert self_test.failures == ()


@pytest.mark.quick
@pytest.mark.usefixtures("lake")
def test_a_bit_is_flipped_only_where_a_comparison_reads(settings: Settings) -> None:
    uri = PipelineLake(settings, PIPELINE).stream_uri(0)
    table = delta.open_table(uri)
    rows = pa.table({"_epoch": pa.array([0], pa.int64())})
    for number in range(5):
        new_file = data_files.write_data_file(
            uri, rows, checksums.new_stem(f"ids-{number}", 0), partition={"_kind": RowKind.IDS}
        )
        commits.replace(table, [], [new_file])

    struck = [copied_lake.flip_bit(uri, number / 20) for number in range(20)]

    assert len(set(struck)) > 1
    assert not [path for path in struck if f"_kind={RowKind.IDS}" in path or "ids-" in path]


def test_one_seed_plants_the_same(settings: Settings, lake: Lake) -> None:
    first_test, second, other = (self_tested(settings, lake, seed=seed, trials=3) for seed in (7, 7, 8))

    assert replace(second, at=first_test.at, seconds=first_test.seconds) == first_test
    assert other.by_kind != first_test.by_kind


Blunder = Callable[[Finding], Finding]


def _sees_nothing(finding: Finding) -> Finding:
    none = {name: Cause() for name in finding.causes}
    return replace(finding, verdict=Verdict.CONSISTENT, differences=(), causes=none)


def _sees_late_rows(finding: Finding) -> Finding:
    return replace(finding, differences=tuple(replace(cell, cause="late") for cell in finding.differences))


def _sees_too_much(finding: Finding) -> Finding:
    extra = tuple(replace(cell, window_start="2026-01-04T00:00:00Z") for cell in finding.differences[:1])
    return replace(finding, differences=(*finding.differences, *(replace(cell, cause="unexplained") for cell in extra)))


def _sees_other_kinds(finding: Finding) -> Finding:
    kinds = {"missing": "extra", "extra": "changed", "changed": "missing"}
    return replace(finding, differences=tuple(replace(cell, kind=kinds[cell.kind]) for cell in finding.differences))


@pytest.mark.quick("_sees_too_much-false_alarm_rate")
@pytest.mark.parametrize(
    ("blunder", "rate_of"),
    [
        (_sees_nothing, "detection_rate"),
        (_sees_late_rows, "detection_rate"),
        (_sees_other_kinds, "right_cause_rate"),
        (_sees_too_much, "false_alarm_rate"),
    ],
)
def test_a_reconciler_that_errs_is_found_out(
    settings: Settings, lake: Lake, monkeypatch: pytest.MonkeyPatch, blunder: Blunder, rate_of: str
) -> None:
    def err(*arguments: Any) -> Any:
        outcome = compare_at_cut(*arguments)
        return replace(outcome, finding=blunder(outcome.finding))

    monkeypatch.setattr(trials, "compare_at_cut", err)

    self_test = self_tested(settings, lake, trials=4)

    hits, of = getattr(self_test, rate_of).hits, getattr(self_test, rate_of).of
    assert hits > 0 if rate_of == "false_alarm_rate" else hits < of
    assert (self_test.passed, bool(self_test.failures)) == (False, True)


def test_what_a_refusal_does_not_speak_of_is_planted_and_compared_again(
    settings: Settings, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, drawn_plants_seen, compared = draw_row_plants, list[Any](), list[Any]()

    def remember(*arguments: Any) -> Any:
        drawn_plants_seen.append(draw(*arguments))
        compared.append("draw")
        return drawn_plants_seen[-1]

    def reject_first(*arguments: Any) -> Any:
        outcome = compare_at_cut(*arguments)
        compared.append("compare")
        if compared[-2] == "draw":
            window = min(start for start, _ in drawn_plants_seen[-1][0].places)
            finding = replace(outcome.finding, verdict=Verdict.NOT_COMPARABLE, sentence=f"No window {window}.")
            return replace(outcome, finding=finding)
        return outcome

    monkeypatch.setattr(trials, "draw_row_plants", remember)
    monkeypatch.setattr(trials, "compare_at_cut", reject_first)

    self_test = self_tested(settings, lake, trials=4)

    rows = {kind: kind_result.detection_rate.of for kind, kind_result in self_test.by_kind.items() if kind in KINDS}
    assert sum(rows.values()) == sum(len(plant.expected) for plants in drawn_plants_seen for plant in plants)
    assert self_test.refused >= sum(len(plants[0].expected) for plants in drawn_plants_seen) > 0
    assert self_test.right_cause_rate.of > 0
    assert self_test.failures == ()


def test_a_row_that_differed_before_needs_the_planted_cause_and_kind(settings: Settings, lake: Lake) -> None:
    finding = compare_at_cut(PipelineLake(settings, PIPELINE), ComparisonRequest(log=log_of_lake(lake))).finding
    cell = finding.differences[0]
    place = place_of(cell)
    clean = Mock(causes={place: frozenset({"late"})}, unexplained_places=frozenset(), pipeline=PIPELINE)
    plant = Plant(kind="lost values", side=PlantSide.STREAM, expected=(PlantedRow(place=place, kind="changed"),))

    def judge_change(kind: str, cause: str) -> tuple[int, int]:
        changed_finding = replace(finding, differences=(replace(cell, kind=kind, cause=cause),))
        (result,) = evaluate_trial(clean, [plant], changed_finding, "trial 1").plants
        return result.detected, result.identified

    assert judge_change("changed", "late") == (0, 0)
    assert judge_change("missing", "unexplained") == (1, 0)
    assert judge_change("changed", "late + unexplained") == (1, 1)


def test_an_edit_that_leaves_a_result_as_it_was_may_take_its_cause(settings: Settings) -> None:
    largest = replace(PIPELINE, name="largest", measures={"sales": Count(), "most": Max("amount")})
    late = [Sale(epoch=2, hour=hour, shop=shop, desk=1, amount=1, kind="late") for hour in range(40) for shop in "ab"]
    lake = lake_of((*SALES[:720], *late), largest)
    write(settings, lake, largest)

    assert self_tested(settings, lake, trials=24, pipeline=largest).failures == ()


def test_sessions_are_tested_too(settings: Settings) -> None:
    sessions = replace(PIPELINE, name="visits", window=Sessions(gap="30 minutes"), measures={"sales": Count()})
    spread = tuple(replace(sale, hour=sale.hour * 2) for sale in SALES if sale.kind == "accepted")
    lake = lake_of(spread, sessions)
    write(settings, lake, sessions)

    self_test = self_tested(settings, lake, trials=8, pipeline=sessions)

    assert (self_test.failures, self_test.detection_rate.hits) == ((), self_test.detection_rate.of)
    assert self_test.detection_rate.of > 0


def test_sides_that_cannot_be_compared_are_not_tested(settings: Settings, lake: Lake) -> None:
    other = replace(PIPELINE, name="nothing")
    with pytest.raises(LakeError, match="expected two sides that can be compared, got"):
        self_tested(settings, lake, pipeline=other)
    store = settings.model_copy(update={"lake": "s3://bucket/lake"})
    with pytest.raises(LakeError, match="expected a lake in a folder"):
        self_tested(store, lake)


@pytest.mark.parametrize(("hits", "of"), [(0, 10), (10, 10), (3, 10), (997, 1_000), (1, 2), (499, 20_000)])
def test_bounds_are_those_of_clopper_and_pearson(hits: int, of: int) -> None:
    from scipy.stats import binomtest  # type: ignore[import-untyped]  # noqa: PLC0415 -- no worker imports it in vain

    interval, expected_interval = rate(hits, of), binomtest(hits, of).proportion_ci(0.95, "exact")

    assert (interval.lower, interval.upper) == pytest.approx((expected_interval.low, expected_interval.high), abs=1e-9)
    assert (rate(0, 0).lower, rate(0, 0).upper) == (0, 1)


def test_the_newest_stands_in_the_report_and_is_no_finding_of_it(settings: Settings, lake: Lake) -> None:
    pipeline_lake = PipelineLake(settings, PIPELINE)
    assert "none yet: cutover selftest sales" in page.render_page(reconcile(pipeline_lake))
    record_passed(pipeline_lake)

    second_report = reconcile(pipeline_lake)

    assert lake.run.epoch == second_report.finding.seal.epoch
    assert (second_report.run.repeats, find_newest_self_test(pipeline_lake) is not None) == (1, True)
    assert "500 of 500 planted rows found" in page.render_page(second_report)


def test_the_command_records_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.integration.reconcile.test_commands import DEFINITION  # noqa: PLC0415 -- one definition for both

    (tmp_path / "sales.py").write_text(DEFINITION, encoding="utf-8")
    monkeypatch.setitem(os.environ, "CUTOVER_HOME", str(tmp_path / "home"))
    monkeypatch.setitem(os.environ, "CUTOVER_PIPELINES", str(tmp_path))
    settings = Settings()
    write(settings, lake_of([sale for sale in SALES if sale.kind == "accepted"]))

    code = app.main(["selftest", "sales", "--seed", "5", "--trials", "2", "--json"])

    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    stored = find_newest_self_test(PipelineLake(settings, PIPELINE))
    assert stored is not None
    assert (code, answer["seed"], answer["trials"], stored.seed) == (1 - answer["passed"], 5, 2, 5)
