"""Stored bytes or rows that our writers did not write: a flipped bit or a foreign write; no verdict is given."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from deltalake import DeltaTable, write_deltalake

from cutover.clock import SystemClock
from cutover.definition import EachEpoch, Pipeline, Repeat
from cutover.definition.model.policy import Stage
from cutover.lake.tables import delta
from cutover.pipeline_lake import BatchTable, PipelineLake
from cutover.reconcile.gate import evidence as evidence_of
from cutover.reconcile.gate.decide import decide
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.verify.record import verify_pipeline
from tests.faults.fault import Fault, Part
from tests.faults.running.definition import definition
from tests.faults.running.rig import Rig
from tests.integration.reconcile.lake_of import PIPELINE, Sale, lake_of, write

LAKE_ALONE = frozenset({Part.LAKE})
OLD_BATCH = {"batch_schedules": 1e9}  # its run is dated by the table's own clock
SALES = [
    *(Sale(epoch=e, hour=h, shop=shop, amount=10 * h + e) for e in range(3) for h in range(4) for shop in ("a", "b")),
    Sale(epoch=2, hour=1, amount=7, kind="future"),
]
Write = Callable[[str], object]


def sales() -> Pipeline:
    """Return the definition of the tables."""
    return PIPELINE


def _write_sales(rig: Rig) -> None:
    rig.make = sales
    write(rig.settings, lake_of(SALES))
    rig.note("before", rig.reconcile().finding.verdict.value)


def _uri(rig: Rig, table: str) -> str:
    of_batch: dict[str, BatchTable] = {"batch": "batch", "index": "batch_index"}
    return rig.lake.batch_uri(of_batch[table]) if table in of_batch else rig.version.uri


def remembering(topic: str) -> Pipeline:
    """Return a definition of which a start reads ids, what its panes hold, and time."""
    return replace(definition(topic, record_id="id"), trigger=Repeat(EachEpoch()))


def flip_before_a_start(rig: Rig, *, table: str, kind: str) -> None:
    """Flip one bit of a data file that the next start of a path reads, and start it: its newest one of that kind."""
    rig.make = partial(remembering, rig.topic)
    rig.send(rig.draw(60))
    rig.close_windows()
    rig.drain()
    rig.batch()
    rig.note("before", rig.reconcile().finding.verdict.value)
    _flip_one(rig, max(_files(rig, table, kind), key=lambda file: file.stat().st_mtime_ns))
    rig.send(rig.draw(20))
    rig.note("transaction", rig.transaction())
    rig.refused(rig.drain if table == "log" else rig.batch)
    rig.note("transaction after", rig.transaction())


def the_start_names_the_file(rig: Rig) -> Iterator[str]:
    """Nothing was written."""
    name = Path(rig.evidence["file"][0]).name
    if name not in rig.said:
        yield f"expected {name} in: {rig.said}"
    transaction_before, transaction_after = rig.evidence["transaction"], rig.evidence["transaction after"]
    if transaction_before != transaction_after:
        yield f"expected transaction {transaction_before}, got {transaction_after}"


def flip(rig: Rig, *, table: str, kind: str) -> None:
    """Flip one bit of a data file so that the file still is as long, and compare."""
    _write_sales(rig)
    _flip_one(rig, _files(rig, table, kind)[0])
    _compare(rig)


def _files(rig: Rig, table: str, kind: str) -> list[Path]:
    """Return the data files of a kind."""
    files = sorted(Path(_uri(rig, table)).rglob("*.parquet"))
    return [file for file in files if kind in str(file) and "_delta_log" not in file.parts]


def _flip_one(rig: Rig, file: Path) -> None:
    content = file.read_bytes()
    rig.note("file", [str(file), content.hex()])
    place = len(content) // 3
    file.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
    rig.note("bits", sum((a ^ b).bit_count() for a, b in zip(content, file.read_bytes(), strict=True)))


def _compare(rig: Rig) -> None:
    report = rig.reconcile()
    rig.exit_code = report.finding.exit_code
    rig.note(
        "said",
        [report.finding.verdict.value, report.finding.rows.compared, report.finding.runbook, report.finding.sentence],
    )


def one_bit_is_another(rig: Rig) -> bool:
    """Both sides agreed before; exactly one bit of the file is not as it was."""
    return bool(rig.evidence["before"] == Verdict.CONSISTENT.value and rig.evidence["bits"] == 1)


def the_file_is_named(rig: Rig) -> Iterator[str]:
    """NOT_COMPARABLE with the file's name, and no counts."""
    verdict, rows, runbook, sentence = rig.evidence["said"]
    name = Path(rig.evidence["file"][0]).name
    if (verdict, rows, runbook) != (Verdict.NOT_COMPARABLE.value, 0, "TableUnreadable") or name not in sentence:
        yield f"expected NOT_COMPARABLE with {name}, got {verdict} over {rows} rows: {sentence}"


def restore_file(rig: Rig) -> None:
    """Restore the file from a copy."""
    path, content = rig.evidence["file"]
    Path(path).write_bytes(bytes.fromhex(content))


def write_by_hand(rig: Rig, *, table: str, write_: Write) -> None:
    """Write as a foreign writer, and compare."""
    _write_sales(rig)
    uri = _uri(rig, table)
    rig.note("version", int(DeltaTable(uri).version()))
    write_(uri)
    rig.note("history", DeltaTable(uri).history(1)[0]["operation"])
    rig.note("by hand", int(DeltaTable(uri).version()))
    _compare(rig)
    lake = PipelineLake(rig.settings, PIPELINE)
    evidence = evidence_of.read_evidence(lake, SystemClock().now())
    decision = decide(Stage.LAMBDA, evidence, "advance", PIPELINE.policy, SystemClock().now())
    rig.note("gate", [text for text in decision.missing if text.startswith("tables")])
    rig.note("verify", [violation.text for violation in verify_pipeline(lake, only=["N9"]).violations])


def a_commit_is_newer(rig: Rig) -> bool:
    """The table's own history has a commit that is not ours."""
    return bool(rig.evidence["by hand"] > rig.evidence["version"])


def the_commit_is_named(rig: Rig) -> Iterator[str]:
    """In reconcile, the gate and verify: version, operation and rows."""
    verdict, rows, runbook, sentence = rig.evidence["said"]
    if (verdict, rows, runbook) != (Verdict.NOT_COMPARABLE.value, 0, "ForeignWrite"):
        yield f"expected NOT_COMPARABLE for ForeignWrite, got {verdict}, {runbook}: {sentence}"
    commit = f"table version {rig.evidence['by hand']}, {rig.evidence['history']} by delta-rs"
    for text in (sentence, *(rig.evidence["gate"] or [""]), *(rig.evidence["verify"] or [""])):
        if commit not in text or "rows removed" not in text:
            yield f"expected `{commit}` with its rows, got `{text}`"


def nobody_says_a_word(rig: Rig) -> Iterator[str]:
    """The comparison says what it said before, gate and verify nothing."""
    verdict, _, _, sentence = rig.evidence["said"]
    if verdict != rig.evidence["before"] or rig.evidence["gate"] or rig.evidence["verify"]:
        yield f"expected {rig.evidence['before']}, got {verdict}: {sentence}"


def undo(rig: Rig) -> None:
    """Restore the version before."""
    uri = next(uri for uri in (_uri(rig, t) for t in ("batch", "index", "log")) if _is_changed(uri))
    DeltaTable(uri).restore(rig.evidence["version"])


def _is_changed(uri: str) -> bool:
    return any(".parquet" in path and path.split("/")[-1].startswith("part-") for path in delta.paths(DeltaTable(uri)))


def compare(rig: Rig) -> None:
    """Compare once more."""
    rig.reconcile()


def update(uri: str) -> None:
    """Change every row of the batch table."""
    DeltaTable(uri).update({"_n": "_n + 1"})


def delete(uri: str) -> None:
    """Delete half of a file's rows."""
    DeltaTable(uri).delete("window_start > '2026-01-01T01:00:00Z'")


def append(uri: str) -> None:
    """Write every row once more."""
    table = DeltaTable(uri)
    write_deltalake(uri, table.to_pyarrow_table(), mode="append", partition_by=table.metadata().partition_columns)


def optimize(uri: str) -> None:
    """Rewrite the files; rows stay as they are."""
    table = DeltaTable(uri)
    table.optimize.z_order(["window_start"])


WRITES: dict[str, tuple[str, Write]] = {
    "update-batch": ("batch", update),
    "append-batch": ("batch", append),
    "append-index": ("index", append),
    "delete-log": ("log", delete),
}

FLIPS = {
    "partial": ("log", "_kind=partial"),
    "ledger": ("log", "_kind=ledger"),
    "epoch": ("log", "_kind=epoch"),
    "batch": ("batch", ""),
    "index": ("index", ""),
}

STARTS = {
    "start-ids": ("log", "_kind=ids"),
    "start-held": ("log", "_kind=held"),
    "start-time": ("log", "_kind=epoch"),
    "start-batch": ("index", ""),
}

FAULTS = (
    *(
        Fault(
            id="F36",
            variant=variant,
            family="lake",
            title="stored bytes that a start reads",
            inject=partial(flip_before_a_start, table=table, kind=kind),
            happened=one_bit_is_another,
            heal=restore_file,
            holds=(the_start_names_the_file,),
            alert="TableUnreadable",
            exit_code=2,
        )
        for variant, (table, kind) in STARTS.items()
    ),
    *(
        Fault(
            id="F36",
            variant=variant,
            family="lake",
            title="stored bytes",
            inject=partial(flip, table=table, kind=kind),
            happened=one_bit_is_another,
            needs=LAKE_ALONE,
            limits=OLD_BATCH,
            heal=restore_file,
            settle=compare,
            checks=(),
            holds=(the_file_is_named,),
            alert="TableUnreadable",
            exit_code=2,
        )
        for variant, (table, kind) in FLIPS.items()
    ),
    *(
        Fault(
            id="F41",
            variant=variant,
            family="lake",
            title="foreign write",
            inject=partial(write_by_hand, table=table, write_=write_),
            happened=a_commit_is_newer,
            needs=LAKE_ALONE,
            limits=OLD_BATCH,
            heal=undo,
            settle=compare,
            checks=(),
            holds=(the_commit_is_named,),
            alert="ForeignWrite",
            exit_code=2,
            quick=variant == "update-batch",
        )
        for variant, (table, write_) in WRITES.items()
    ),
    Fault(
        id="F41",
        variant="control-optimize",
        family="lake",
        title="foreign write",
        inject=partial(write_by_hand, table="batch", write_=optimize),
        happened=a_commit_is_newer,
        needs=LAKE_ALONE,
        limits=OLD_BATCH,
        settle=compare,
        checks=(),
        holds=(nobody_says_a_word,),
        exit_code=0,
    ),
)
