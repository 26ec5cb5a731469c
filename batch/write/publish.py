"""Publish a run if its contract holds: what was scanned, then the windows, then the row that makes the run count.

The contract is the definition's expectations, run by Great Expectations before anything is published. The inputs and
outputs of a published run are those of its OpenLineage event.
"""

import json
import logging
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import CommitProperties

from cutover.batch.context import RunContext, StagedRun
from cutover.batch.read import index, scan
from cutover.batch.read.index import IndexHistory
from cutover.batch.write.replace import replace_windows
from cutover.batch.write.result import read_staged_rows
from cutover.clock import Clock, Probe
from cutover.definition.compile.fingerprint import batch_fingerprint, result_fingerprint
from cutover.definition.model.pipeline import Expect, Pipeline
from cutover.engine import queries
from cutover.engine.spark import is_local
from cutover.engine.usage import PathCost, UsageMeter, add_costs, measure_cost
from cutover.errors import ContractError, DefinitionError
from cutover.lake.batch_runs import BatchRun, ExpectationResult, Range
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import batch_schema
from cutover.lineage.runs import RunDatasets
from cutover.pipeline_lake import BATCH_TABLES, BatchTable, PipelineLake
from cutover.quoting import identifier


def run_expectations(
    pipeline: Pipeline, connection: duckdb.DuckDBPyConnection, staged: str
) -> tuple[ExpectationResult, ...]:
    """Run the expectations on a staged result.

    Args:
        pipeline: Its `contract` names Great Expectations' types and their arguments.
        connection: Holds the relation.
        staged: The relation's name. Decimals are passed as doubles, bigints as nullable integers.

    Returns:
        One result an expectation; none if the contract is empty. Of a result without rows only what failed: that no row
        breaks an expectation says nothing where there is no row.

    Raises:
        ContractError: A critical expectation failed.
        DefinitionError: An argument has a value that its expectation does not take.
    """
    if not pipeline.contract:
        return ()
    frame = _frame(connection, staged)
    results = _run(pipeline, frame)
    failed = [result for result in results if not result.success and result.severity == "critical"]
    if failed:
        lines = "\n".join(f"  {result.expectation}: got {result.observed}" for result in failed)
        msg = f"Contract of `{pipeline.name}`: expected every critical expectation to hold on the staged result, got:\n"
        msg += f"{lines}\nHint: nothing was published."
        raise ContractError(msg, runbook="ContractFailed")
    return tuple(result for result in results if len(frame) or not result.success)


def expectations(pipeline: Pipeline) -> list[Any]:
    """Return Great Expectations' own objects of a contract.

    Raises:
        DefinitionError: Arguments are unknown.
    """
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    import great_expectations.expectations as gxe  # noqa: PLC0415 -- the import costs seconds, a contract alone needs it

    return [_expectation(pipeline, expect, gxe) for expect in pipeline.contract]


def _expectation(pipeline: Pipeline, expect: Expect, gxe: Any) -> Any:
    expectation_types = {name.lower(): name for name in dir(gxe)}  # one has capitals within a word: KLDivergence
    try:
        return getattr(gxe, expectation_types[expect.type.replace("_", "")])(
            **dict(expect.arguments), severity=expect.severity
        )
    except (TypeError, ValueError) as error:
        msg = f"Contract of `{pipeline.name}`: `{expect.type}` does not take {dict(expect.arguments)}: {error}."
        raise DefinitionError(msg) from error


def _run(pipeline: Pipeline, frame: Any) -> tuple[ExpectationResult, ...]:
    expected = expectations(pipeline)
    import great_expectations as gx  # noqa: PLC0415 -- see `expectations`

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    source = context.data_sources.add_pandas("staged")
    batch = source.add_dataframe_asset("result").add_batch_definition_whole_dataframe("all")
    handle = batch.get_batch({"dataframe": frame})
    pairs = zip(pipeline.contract, expected, strict=True)
    return tuple(_result(expect, handle.validate(expectation)) for expect, expectation in pairs)


def _result(expect: Expect, gx_result: Any) -> ExpectationResult:
    return ExpectationResult(
        expectation=expect.text,
        severity=expect.severity,
        success=bool(gx_result.success),
        observed=_format_observation(gx_result),
    )


def _format_observation(observed: Any) -> str:
    """Return a count or a value; never rows: what a record holds stays out of logs and errors."""
    error = (observed.exception_info or {}).get("exception_message")
    if error:
        return f"an error: {str(error).splitlines()[0]}"
    result = dict(observed.result or {})
    if "unexpected_count" in result:
        return f"{result['unexpected_count']} unexpected of {result.get('element_count', '?')}"
    return str(result.get("observed_value", "no value"))


def _frame(connection: duckdb.DuckDBPyConnection, staged: str) -> Any:
    columns = connection.execute(f"DESCRIBE {staged}").fetchall()
    selected = ", ".join(
        f"CAST({name} AS DOUBLE) AS {name}" if kind.startswith("DECIMAL") and "[" not in kind else name
        for name, kind in ((identifier(name), kind) for name, kind, *_ in columns)
    )
    table = queries.query_table(connection, f"SELECT {selected} FROM {staged}")  # noqa: S608 -- internal columns
    return table.to_pandas(integer_object_nulls=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutput:
    """Output of a run before anything is committed."""

    run: BatchRun  # without the table versions that it will create
    ranges: pa.Table  # of the batch index
    ledger: pa.Table
    rows: pa.Table
    replaced: tuple[Range, ...]  # windows that the rows replace: those that the run computed, or undoes
    began: float  # monotonic seconds at the start of the run
    retained_rows: pa.Table | None = (
        None  # if the run replaces the whole table: rows of windows that it did not compute
    )
    meter: UsageMeter = field(default_factory=UsageMeter)  # counts from `run.cost` on


def publish_run(work: RunContext, staged_run: StagedRun, probe: Probe, clock: Clock) -> BatchRun:
    """Commit the index and the ledger, the batch table, and the run; return the run."""
    return commit_run(work.lake, work.history, collect_output(work, staged_run), probe=probe, clock=clock)


def collect_output(work: RunContext, staged_run: StagedRun) -> RunOutput:
    """Collect the staged rows of a run in memory, so that they no longer need its connection or folder."""
    return RunOutput(
        run=_make_run(work, staged_run),
        ranges=scan.make_range_rows(work.connection, work.run_id, work.target),
        ledger=scan.make_ledger_rows(work.connection, work.pipeline, work.run_id, work.target),
        rows=read_staged_rows(work),
        replaced=staged_run.plan.computed,
        began=work.began,
        retained_rows=None if staged_run.retained is None else staged_run.retained.rows,
    )


def commit_run(
    lake: PipelineLake, history: IndexHistory, run_output: RunOutput, *, probe: Probe, clock: Clock
) -> BatchRun:
    """Commit the index and the ledger, the batch table, and the run; return the run.

    A run that is killed before its own row was written never counted: the next one takes its index and ledger rows out,
    finds the same windows dirty and replaces them again.
    """
    run = run_output.run
    ledger_version = index.record_scan(lake, history, ranges=run_output.ranges, ledger=run_output.ledger, run=run)
    probe("batch.indexed", run.epoch)
    batch_version = _replace(lake, run_output)
    probe("batch.written", run.epoch)
    completed = replace(
        run,
        batch_version=batch_version,
        ledger_version=ledger_version,
        cost=_measure_cost(lake, run_output),
        finished=clock.now().isoformat(),
        seconds=round(clock.monotonic() - run_output.began, 3),
    )
    rows: dict[BatchTable, int] = {
        "batch_index": run_output.ranges.num_rows,
        "batch_ledger": run_output.ledger.num_rows,
    }
    batch_run = index.record_run(lake, completed, sequence=history.next_sequence, rows=rows)
    probe("batch.committed", run.epoch)
    return batch_run


def summarize_run(run: BatchRun) -> dict[str, Any]:
    """Return what a log line says of a run: counts, bounds and offsets."""
    return {
        "run_id": run.run_id,
        "epoch": run.epoch,
        "scanned": sum(end - start for start, end in run.scanned.values()),
        "counts": dict(run.counts),
        "computed": len(run.computed),
        "stale": len(run.stale),
        "incomplete": len(run.incomplete),
        "batch_version": run.batch_version,
        "seconds": run.seconds,
    }


def _replace(lake: PipelineLake, run_output: RunOutput) -> int:
    table = delta.ensure(lake.batch_uri(), batch_schema(lake.pipeline))
    note = json.dumps({"run_id": run_output.run.run_id, "epoch": run_output.run.epoch})
    return replace_windows(
        table,
        run_output.rows,
        run_output.replaced,
        of=run_output.run.run_id,
        instead_of=run_output.retained_rows,
        commit=CommitProperties(max_commit_retries=0, custom_metadata={"userMetadata": note}),
    )


def _make_run(work: RunContext, staged_run: StagedRun) -> BatchRun:
    record, requested = work.target.record, work.requested or ()
    return BatchRun(
        run_id=work.run_id,
        epoch=record.epoch,
        stream_version=work.target.version.number,
        topic=record.topic,
        topic_id=record.topic_id,
        cluster_id=record.cluster_id,
        cut=dict(record.end),
        scanned=dict(staged_run.scanned),
        watermark=record.watermark_after,
        result_fingerprint=result_fingerprint(work.pipeline),
        batch_fingerprint=batch_fingerprint(work.pipeline),
        **work.settings_recorder.make_run_fields(work.pipeline, work.history),
        wanted=requested[0] if len(requested) == 1 else None,
        computed=staged_run.plan.computed,
        stale=staged_run.plan.stale,
        incomplete=staged_run.incomplete,
        counts=scan.count_classes(work.connection, work.pipeline),
        id_conflicts=scan.count_id_conflicts(work.connection, work.pipeline),
        contract=staged_run.contract,
        open_from=staged_run.open_from,
        marks=dict(record.marks),
        anew=work.anew,
        kept=() if staged_run.retained is None else staged_run.retained.ranges,
        left_out=staged_run.plan.skipped,
        dimensions=dict(work.lookups.spans),
        cost=measure_cost(work.meter, is_local=is_local(work.lake.settings), written_bytes=0),
        started=work.started.isoformat(),
    )


def _measure_cost(lake: PipelineLake, run_output: RunOutput) -> PathCost:
    """Return what was used until the run was prepared, by another process where it is a draft, and since."""
    written_bytes = _count_written_bytes(lake, run_output.run.run_id)
    cost = measure_cost(run_output.meter, is_local=is_local(lake.settings), written_bytes=written_bytes)
    return cost if run_output.run.cost is None else add_costs(run_output.run.cost, cost)


def _count_written_bytes(lake: PipelineLake, run_id: str) -> int:
    """Return the size of the files that a run has added to its tables, by their names; its own record comes after."""
    tables = (lake.batch_uri(name) for name in BATCH_TABLES)
    actions = (action for uri in tables if delta.exists(uri) for action in delta.actions(delta.open_table(uri)))
    return sum(int(action["size_bytes"]) for action in actions if f"-{run_id}-" in str(action["path"]))


def find_touched_by_run(lake: PipelineLake, batch_run: BatchRun | None) -> RunDatasets:
    """Return the offsets that a run read for the first time and its tables; nothing, where it had nothing to do."""
    if batch_run is None:
        return RunDatasets()
    from cutover.lineage import datasets  # noqa: PLC0415 -- its client takes a second to load: only if lineage is configured

    outputs = [datasets.make_output_table(lake.batch_uri(), batch_run.batch_version)]
    outputs.append(datasets.make_output_table(lake.batch_uri("batch_ledger"), batch_run.ledger_version))
    read = datasets.make_input_topics(
        lake.settings, batch_run.topic, batch_run.topic_id, batch_run.cluster_id, batch_run.scanned
    )
    facets = {"runId": batch_run.run_id, "epoch": batch_run.epoch, "windowRanges": len(batch_run.computed)}
    return RunDatasets(inputs=tuple(read), outputs=tuple(outputs), facets=facets)


def find_touched_by_repair(lake: PipelineLake, outcome: tuple[BatchRun, bool]) -> RunDatasets:
    """Return what a repair wrote; nothing, where it had been published before."""
    run, was_published = outcome
    return find_touched_by_run(lake, None if was_published else run)


def find_touched_by_undo(lake: PipelineLake, outcome: tuple[BatchRun | None, str, bool]) -> RunDatasets:
    """Return the outputs of an undone repair; none if it was a draft or was undone before."""
    run, _, was_undone = outcome
    return find_touched_by_run(lake, None if was_undone else run)
