"""The contract: the definition's expectations, run by Great Expectations before anything is published."""

import logging
from typing import Any

import duckdb

from cutover.definition.model.pipeline import Expect, Pipeline
from cutover.engine import queries
from cutover.errors import ContractError, DefinitionError
from cutover.lake.batch_runs import ExpectationResult
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
