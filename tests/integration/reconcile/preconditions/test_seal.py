"""Each way in which the seal does not hold gives NOT_COMPARABLE and its reason, never a verdict on the data."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cutover.clock import SystemClock
from cutover.definition import Lateness, Sum
from cutover.lake.control import versions
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import epoch_log_schema
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import PIPELINE, Lake, Sale, lake_of, micros, reconcile, write, write_run
from tests.support.history.reconciliations import record_line

SALES = tuple(Sale(epoch=i % 4, hour=i % 5, shop=("a", None)[i % 2], amount=i) for i in range(40))


def _epoch(lake: Lake, number: int, **changes: object) -> Lake:
    return replace(lake, epochs=tuple(replace(e, **changes) if e.epoch == number else e for e in lake.epochs))  # type: ignore[arg-type]  # by name


def _run(lake: Lake, **changes: object) -> Lake:
    return replace(lake, run=replace(lake.run, **changes))  # type: ignore[arg-type]  # by name


def _fold_across_cut(lake: Lake) -> Lake:
    """Rows of epoch 1 now say epoch 3; the batch is at the cut of epoch 2."""
    moved_rows = tuple(row | {"_epoch": 3} if row["_epoch"] == 1 else row for row in lake.partials)
    cut = lake.epochs[2].end
    return _run(replace(lake, partials=moved_rows), epoch=2, cut=dict(cut))


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakage:
    """One way to break the seal and the code of its breach."""

    id: str
    spoil: Callable[[Lake], Lake]
    code: str


BREAKAGES = (
    Breakage(id="another topic id", spoil=lambda k: _epoch(k, 1, topic_id="topic-2"), code="log_identity"),
    Breakage(id="batch of another log", spoil=lambda k: _run(k, topic_id="topic-2"), code="log_identity"),
    Breakage(id="another cluster", spoil=lambda k: _run(k, cluster_id="cluster-2"), code="log_identity"),
    Breakage(id="another cut", spoil=lambda k: _run(k, cut={0: 39}), code="cut"),
    Breakage(id="another watermark", spoil=lambda k: _run(k, watermark=micros(50)), code="cut"),
    Breakage(id="an epoch of another truth", spoil=lambda k: _epoch(k, 0, result_fingerprint="x"), code="fingerprint"),
    Breakage(id="batch of another truth", spoil=lambda k: _run(k, result_fingerprint="x"), code="fingerprint"),
    Breakage(id="another lateness midway", spoil=lambda k: _epoch(k, 2, lateness_fingerprint="x"), code="fingerprint"),
    Breakage(id="another legacy SQL", spoil=lambda k: _run(k, batch_fingerprint="abc"), code="fingerprint"),
    Breakage(id="isolation of one side", spoil=lambda k: _run(k, isolation="read_uncommitted"), code="isolation"),
    Breakage(
        id="an epoch is missing", spoil=lambda k: replace(k, epochs=(*k.epochs[:1], *k.epochs[2:])), code="history"
    ),
    Breakage(id="an epoch twice", spoil=lambda k: replace(k, epochs=(*k.epochs, k.epochs[1])), code="history"),
    Breakage(id="a gap of offsets", spoil=lambda k: _epoch(k, 2, start={0: 21}), code="history"),
    Breakage(id="an overlap of offsets", spoil=lambda k: _epoch(k, 2, start={0: 19}), code="history"),
    Breakage(id="a partition went away", spoil=lambda k: _epoch(k, 1, end={0: 20, 1: 5}), code="history"),
    Breakage(id="transaction ahead of rows", spoil=lambda k: replace(k, transaction=4), code="history"),
    Breakage(
        id="newest epoch row is missing",
        spoil=lambda k: replace(k, epochs=k.epochs[:-1], transaction=2),
        code="history",
    ),
    Breakage(id="batch of another stream version", spoil=lambda k: _run(k, stream_version=3), code="no_batch"),
    Breakage(
        id="batch rows of a run that was cut off",
        spoil=lambda k: replace(k, batch=tuple(r | {"_epoch": 9} for r in k.batch)),
        code="cut",
    ),
    Breakage(
        id="batch rows of an older cut than the last run over them",
        spoil=lambda k: replace(k, batch=(k.batch[0] | {"_epoch": 2}, *k.batch[1:])),
        code="cut",
    ),
    Breakage(
        id="batch rows that no run computed",
        spoil=lambda k: _run(k, computed=((micros(1), micros(100)),)),
        code="cut",
    ),
    Breakage(id="a fold across the cut", spoil=_fold_across_cut, code="folded"),
)


def _newest_entry(log: Path) -> Path:
    return max((log / "_delta_log").glob("*.json"))


def _without(action: str) -> Callable[[Path], object]:
    """Return what takes one kind of action out of the last commit."""

    def damage(log: Path) -> None:
        lines = _newest_entry(log).read_text().splitlines(keepends=True)
        _newest_entry(log).write_text("".join(line for line in lines if not line.startswith('{"' + action)))

    return damage


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One way to harm the table log of the epoch log, and what the message must name."""

    id: str
    do: Callable[[Path], object]
    says: str


DAMAGES = (
    Damage(
        id="half",
        do=lambda log: _newest_entry(log).write_bytes(_newest_entry(log).read_bytes()[:300]),
        says="1.json`, which cannot be read",
    ),
    Damage(id="0 bytes", do=lambda log: _newest_entry(log).write_bytes(b""), says="1.json`, which has 0 bytes"),
    Damage(id="deleted", do=lambda log: _newest_entry(log).unlink(), says="saw epoch 3, newest epoch row is -1"),
    Damage(id="no transaction", do=_without("txn"), says="transaction says none, newest epoch row is 3"),
    Damage(id="no metadata", do=_without("commitInfo"), says="1.json` does not record it"),
    Damage(
        id="a middle one",
        do=lambda log: (log / "_delta_log" / f"{0:020d}.json").unlink(),
        says="0.json`, which is",
    ),
)


def codes(result: Report) -> set[str]:
    assert (result.finding.verdict, result.finding.exit_code) == (Verdict.NOT_COMPARABLE, 2)
    return {breach.code for breach in result.finding.seal.breaches}


@pytest.mark.quick("another legacy SQL")
@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.id)
def test_a_broken_seal_is_not_comparable(settings: Settings, breakage: Breakage) -> None:
    write(settings, breakage.spoil(lake_of(SALES)))

    assert breakage.code in codes(reconcile(PipelineLake(settings, PIPELINE)))


def test_no_stream_is_not_comparable(settings: Settings) -> None:
    assert codes(reconcile(PipelineLake(settings, PIPELINE))) == {"no_stream"}


def test_what_changed_since_the_version_before_is_named_with_the_command_that_mends_it(settings: Settings) -> None:
    write(settings, lake_of(SALES))
    patient = replace(PIPELINE, lateness=Lateness(allowed="2 hours"))
    by_shop = replace(PIPELINE, key=("shop",))

    messages = [reconcile(PipelineLake(settings, pipeline)).finding.sentence for pipeline in (patient, by_shop)]

    assert "`lateness.allowed` is 7200000000, was 3600000000." in messages[0]
    assert '`key` is ["shop"], was ["shop", "desk"].' in messages[1]
    assert all("`cutover stream sales --drain`, then `cutover batch sales`" in text for text in messages)


def test_fork_that_batch_has_not_computed_for_is_named(settings: Settings) -> None:
    write(settings, lake_of(SALES))
    lake = PipelineLake(settings, PIPELINE)
    sequence = versions.read_next_version_sequence(lake)
    fork = versions.Fork(version=0, epoch=1)
    forked = versions.register(lake, SystemClock(), expected_sequence=sequence, fork=fork)
    delta.ensure(forked.uri, epoch_log_schema(PIPELINE), partition_by=["_kind"])

    report = reconcile(lake)

    assert codes(report) == {"no_batch"}
    assert (
        "stream-1 is a fork of stream-0 after epoch 1. `cutover batch sales --version 1` computes one."
        in report.finding.sentence
    )


def test_a_cut_without_a_batch_run_is_not_comparable(settings: Settings) -> None:
    write(settings, lake_of(SALES))

    assert codes(reconcile(PipelineLake(settings, PIPELINE), epoch=1)) == {"no_batch"}


@pytest.mark.quick
def test_an_epoch_log_that_went_back_is_not_comparable(settings: Settings) -> None:
    write(settings, lake_of(SALES))
    lake = PipelineLake(settings, PIPELINE)
    record_line(lake, 7)

    assert codes(reconcile(lake)) == {"history"}


def test_a_changed_lateness_makes_the_old_batch_incomparable(settings: Settings) -> None:
    write(settings, lake_of(SALES))
    patient = replace(PIPELINE, lateness=Lateness(allowed="2 hours"))

    assert codes(reconcile(PipelineLake(settings, patient))) == {"no_stream"}


def test_windows_computed_under_another_lateness_are_compared(settings: Settings) -> None:
    lake = lake_of(SALES)
    earlier_run = replace(lake.run, run_id="batch-0", epoch=41, stream_version=1, finished="2026-01-04T00:00:00Z")
    write_run(settings, earlier_run)
    clean = replace(lake.run, computed=(), stream_version=0)

    write(settings, replace(lake, run=clean, batch=tuple(row | {"_epoch": 41} for row in lake.batch)))

    assert reconcile(PipelineLake(settings, PIPELINE)).finding.verdict is Verdict.CONSISTENT


def test_a_changed_truth_has_tables_of_its_own(settings: Settings) -> None:
    write(settings, lake_of(SALES))
    other = replace(PIPELINE, measures={**PIPELINE.measures, "more": Sum("desk")})

    assert codes(reconcile(PipelineLake(settings, other))) == {"no_stream"}


def _parquet(folder: str) -> Path:
    return max(
        (p for p in Path(folder).rglob("*.parquet") if "_delta_log" not in p.parts), key=lambda p: p.stat().st_size
    )


@pytest.mark.parametrize("side", ["stream", "batch"])
def test_a_missing_file_is_named(settings: Settings, side: str) -> None:
    stream = write(settings, lake_of(SALES))
    lake = PipelineLake(settings, PIPELINE)
    file = _parquet(stream if side == "stream" else lake.batch_uri())
    file.unlink()

    result = reconcile(lake)

    assert codes(result) == {"unreadable"}
    assert file.name in str(result.finding.seal.breaches[0].file)


@pytest.mark.quick
@pytest.mark.parametrize("side", ["stream", "batch"])
@pytest.mark.parametrize("damage", ["half", "garbled", "empty"])
def test_a_damaged_file_is_unreadable(settings: Settings, side: str, damage: str) -> None:
    stream = write(settings, lake_of(SALES))
    lake = PipelineLake(settings, PIPELINE)
    file = _parquet(stream if side == "stream" else lake.batch_uri())
    content = file.read_bytes()
    half = len(content) // 2
    garbled = content[:4] + bytes(b ^ 0xFF for b in content[4:half]) + content[half:]
    file.write_bytes({"half": content[:half], "garbled": garbled, "empty": b""}[damage])

    result = reconcile(lake)

    assert codes(result) == {"unreadable"}
    assert file.name in result.finding.seal.breaches[0].message


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.id)
def test_a_damaged_table_log_is_named_as_a_broken_history(settings: Settings, damage: Damage) -> None:
    log = Path(write(settings, lake_of(SALES)))
    lake = PipelineLake(settings, PIPELINE)
    assert reconcile(lake).finding.exit_code == 0
    damage.do(log)

    result = reconcile(lake)

    assert "history" in codes(result)
    assert result.finding.runbook == "EpochHistoryBroken"
    assert damage.says in result.finding.seal.breaches[0].message


def test_a_batch_table_whose_last_entry_is_empty_is_unreadable(settings: Settings) -> None:
    write(settings, lake_of(SALES))
    lake = PipelineLake(settings, PIPELINE)
    _newest_entry(Path(lake.batch_uri())).write_bytes(b"")

    result = reconcile(lake)

    assert codes(result) == {"unreadable"}
    assert "1.json`, which has 0 bytes" in result.finding.seal.breaches[0].message


def test_a_table_log_that_was_cleaned_up_is_no_damage(settings: Settings) -> None:
    log = Path(write(settings, lake_of(SALES)))
    delta.open_table(str(log)).create_checkpoint()
    for file in (log / "_delta_log").glob("*.json"):
        file.unlink()

    assert reconcile(PipelineLake(settings, PIPELINE)).finding.verdict is Verdict.CONSISTENT


def test_the_newest_run_that_published_is_compared(settings: Settings) -> None:
    lake = lake_of(SALES)
    write(settings, lake)
    write_run(settings, replace(lake.run, run_id="failed", finished="2026-02-01T00:00:00Z", batch_version=None))

    result = reconcile(PipelineLake(settings, PIPELINE))

    assert (result.finding.verdict, result.run.tables.batch_run) == (Verdict.CONSISTENT, "batch-1")
