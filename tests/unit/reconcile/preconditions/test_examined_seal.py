"""Contents of a recorded seal, with the batch run that it identifies."""

from dataclasses import replace
from pathlib import Path

import pytest

from cutover.definition.compile.fingerprint import batch_fingerprint, lateness_fingerprint, result_fingerprint
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.preconditions.checks import ClassCounts
from cutover.reconcile.preconditions.seal import Examined, evaluate_seal
from cutover.reconcile.result.finding import ComparedLog, Fingerprints, Seal, SealBreach, TablesRead
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import PIPELINE, Lake, Sale, lake_of, micros, write, write_run

SALES = (
    *(Sale(epoch=epoch, hour=hour, amount=hour) for epoch in range(3) for hour in range(2)),
    Sale(epoch=1, hour=1, kind="late"),
    Sale(epoch=2, hour=1, kind="future"),
)


def at_1(lake: Lake) -> Lake:
    """Return the lake whose batch has computed up to epoch 1."""
    rows = tuple(row | {"_epoch": 1} for row in lake.batch)
    return replace(lake, batch=rows, run=replace(lake.run, epoch=1, cut=dict(lake.epochs[1].end)))


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Write a stream of three epochs, and runs: one at epoch 1, which came last, one at 2, one that made no table."""
    installation = Settings(home=tmp_path_factory.mktemp("home"))
    lake = lake_of(SALES)
    first_run = replace(lake.run, run_id="batch-0", computed=(), finished="2026-01-04T00:00:00Z", batch_version=1)
    write_run(installation, replace(first_run, run_id="early", finished="2026-01-03T00:00:00Z"))
    write_run(installation, first_run)
    write(installation, lake)
    write_run(installation, replace(lake.run, run_id="failed", computed=(), finished="2026-01-07T00:00:00Z"))
    older = at_1(lake).run
    write_run(
        installation, replace(older, run_id="older", computed=(), finished="2026-01-06T00:00:00Z", batch_version=1)
    )
    return installation


def test_the_seal_records_log_definitions_tables_and_cut(settings: Settings) -> None:
    examined = evaluate_seal(PipelineLake(settings, PIPELINE), epoch=None)

    assert examined.evidence is not None
    assert examined.seal == Seal(
        epoch=2,
        logs=(ComparedLog(topic="sales", topic_id="topic-1", cluster_id="cluster-1", cut={"0": 8}),),
        fingerprints=Fingerprints(
            definition=result_fingerprint(PIPELINE),
            streaming=(result_fingerprint(PIPELINE),),
            batch=result_fingerprint(PIPELINE),
            lateness=lateness_fingerprint(PIPELINE),
            batch_definition=batch_fingerprint(PIPELINE),
        ),
        stream_version=0,
        isolation="read_committed",
        watermark="2026-01-05T04:00:00Z",
        epochs=3,
    )
    assert examined.tables == TablesRead(
        stream=examined.evidence.epoch_log.version,
        batch=int(examined.evidence.batch.version()),
        batch_ledger=None,
        batch_run="batch-1",
    )


def test_pairs_are_counted_up_to_the_cut_and_in_all_and_none_of_a_class_that_came_behind_it(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    write(settings, at_1(lake_of(SALES)))

    evidence = evaluate_seal(PipelineLake(settings, PIPELINE), epoch=None).evidence

    assert evidence is not None
    assert evidence.watermark == micros(100)
    assert [record.epoch for record in evidence.records] == [0, 1]
    assert evidence.books == ClassCounts(
        up_to_cut={"accepted": 4, "late": 1, "future": 0}, in_all={"accepted": 6, "late": 1, "future": 1}
    )


def test_the_last_finished_run_at_the_latest_cut_is_compared(
    settings: Settings,
) -> None:
    lake = PipelineLake(settings, PIPELINE)
    assert evaluate_seal(lake, epoch=None).tables.batch_run == "batch-1"
    assert evaluate_seal(lake, epoch=1).tables.batch_run == "older"


def refused(examined: Examined) -> SealBreach:
    assert examined.evidence is None
    assert not examined.seal.holds
    (breach,) = examined.seal.breaches
    return breach


def test_a_cut_at_which_no_run_made_a_table_names_the_newest_run_and_what_computes_one(settings: Settings) -> None:
    examined = evaluate_seal(PipelineLake(settings, PIPELINE), epoch=0)

    name = f"sales/{result_fingerprint(PIPELINE)}/stream-0"
    assert examined.seal.epoch == 0
    assert refused(examined) == SealBreach(
        code="no_batch",
        message=(
            f"Pipeline `sales`: expected a batch run at the cut of epoch 0 beside {name}, found none"
            " (the newest is at epoch 1 of stream-0). `cutover batch sales --cut 0` computes one."
        ),
        runbook="NotComparable",
    )


def test_a_pipeline_without_a_stream_names_what_makes_both_sides(tmp_path: Path) -> None:
    assert refused(evaluate_seal(PipelineLake(Settings(home=tmp_path), PIPELINE), epoch=None)) == SealBreach(
        code="no_stream",
        message=(
            "Pipeline `sales`: expected an epoch log under this definition, found none. No stream of this name has"
            " been started yet. `cutover stream sales --drain`, then `cutover batch sales`, makes both sides."
        ),
        runbook="NotComparable",
    )
