"""Comparison of two equal tables of a million rows by a complete reconciliation and by DataComPy on Spark.

Ours is a complete `cutover reconcile`: seal, digests, causes, verdict, report, record. Of DataComPy, only `matches()`
is called, without a report.
"""

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name

from benchmarks.bench import Bench
from benchmarks.peers import table_diffs
from benchmarks.results.figure import Figure, ratio
from benchmarks.rounds import Samples, measure_interleaved, time_call
from benchmarks.workloads import lakes
from benchmarks.workloads.lakes import LakeWorkload
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.run import run_reconciliation

CELLS = 1_000_000
KEY = ("window_start", "k")
MEASURES = ("n", "total", "worst", "ids")


def measure_reconcile(bench: Bench) -> Figure:
    """Measure the seconds of both, with three partial rows per key, and compacted."""
    workload = lakes.make_cell_lake(bench, bench.sized(CELLS))
    workload.recompute()
    partial = measure_interleaved(_variants(bench, workload, fold), bench.rounds)
    compacted = measure_interleaved(_variants(bench, workload.copy_compacted(), plain), bench.rounds)
    return Figure(
        name="reconcile",
        title="Reconcile a million equal rows",
        values=(
            ratio("reconcile_compacted", compacted["DataComPy"], compacted["ours"]),
            ratio("reconcile_partial", partial["DataComPy"], partial["ours"]),
        ),
        sizes={"rows_a_side": workload.rows // lakes.PASSES, "rounds": bench.rounds},
        unit="s",
        samples=_named(compacted, "compacted") | _named(partial, "3 partials"),
        equal=("in every round both reported that the tables agree",),
        notes=(
            "Ours is a complete `cutover reconcile` in a warm process, including report and record.",
            "DataComPy 1.1.0 runs in a warm Spark session and writes no report.",
        ),
        full=workload.rows // lakes.PASSES >= CELLS,
    )


def time_reconcile(workload: LakeWorkload) -> float:
    """Return the seconds of a reconciliation.

    Raises:
        AssertionError: Its verdict is not CONSISTENT.
    """
    results = []
    took = time_call(lambda: results.append(run_reconciliation(workload.lake)))
    finding, rows = results[0].finding, workload.rows // lakes.PASSES
    if finding.verdict is not Verdict.CONSISTENT or finding.rows.compared != rows:
        msg = f"Reconcile: expected CONSISTENT over {rows} rows, got: {finding.sentence}"
        raise AssertionError(msg)
    return took


def plain(stream: DataFrame) -> DataFrame:
    """Select the stream's rows, one per key."""
    return stream.select(*KEY, *MEASURES)


def fold(stream: DataFrame) -> DataFrame:
    """Merge the stream's rows by key."""
    return stream.groupBy(*KEY).agg(
        F.sum("n").alias("n"), F.sum("total").alias("total"), F.max("worst").alias("worst"), F.sum("ids").alias("ids")
    )


def _variants(
    bench: Bench, workload: LakeWorkload, shape: Callable[[DataFrame], DataFrame]
) -> dict[str, Callable[[int], float]]:
    spark = bench.spark

    def time_datacompy(_: int) -> float:
        answers = []

        def compare() -> None:
            stream = spark.read.format("delta").load(workload.version.uri).where("_kind = 'partial'")
            batch = spark.read.format("delta").load(workload.lake.batch_uri()).select(*KEY, *MEASURES)
            answers.append(table_diffs.matches(spark, batch, shape(stream), key=KEY))

        took = time_call(compare)
        if answers != [True]:
            msg = "DataComPy: expected equal tables, got different ones."
            raise AssertionError(msg)
        return took

    return {"ours": lambda _: time_reconcile(workload), "DataComPy": time_datacompy}


def _named(samples: Samples, state: str) -> Samples:
    return {f"{name}, {state}": numbers for name, numbers in samples.items()}
