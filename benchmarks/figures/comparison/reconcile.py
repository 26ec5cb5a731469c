"""Two equal tables of a million rows compared: a whole reconciliation, and DataComPy on Spark over the same tables.

Ours is everything that `cutover reconcile` does: seal, digests, causes, verdict, report, record. Of DataComPy only
`matches()` is asked for, and no report.
"""

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name

from benchmarks.bench import Bench
from benchmarks.made import lakes
from benchmarks.made.lakes import Lake
from benchmarks.peers import datacompy_spark
from benchmarks.rounds import Samples, interleaved, seconds
from benchmarks.shown.figure import Figure, ratio
from cutover.lake.paths import batch_uri
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.run import reconcile

CELLS = 1_000_000
KEY = ("window_start", "k")
MEASURES = ("n", "total", "worst", "ids")


def measure(bench: Bench) -> Figure:
    """Return the seconds of both, first with three partial rows a key, then compacted."""
    lake = lakes.of_cells(bench, bench.sized(CELLS))
    lake.recompute()
    partial = interleaved(_variants(bench, lake, folded), bench.rounds)
    compacted = interleaved(_variants(bench, lake.compacted(), plain), bench.rounds)
    return Figure(
        name="reconcile",
        title="Reconcile a million equal rows",
        values=(
            ratio("reconcile_compacted", compacted["DataComPy"], compacted["ours"]),
            ratio("reconcile_partial", partial["DataComPy"], partial["ours"]),
        ),
        sizes={"rows_a_side": lake.rows // lakes.PASSES, "rounds": bench.rounds},
        unit="s",
        samples=_named(compacted, "compacted") | _named(partial, "3 partials"),
        equal=("in every round both reported that the tables agree",),
        notes=(
            "Ours is a complete `cutover reconcile` in a warm process, including report and record.",
            "DataComPy 1.1.0 runs in a warm Spark session and writes no report.",
        ),
        full=lake.rows // lakes.PASSES >= CELLS,
    )


def once(lake: Lake) -> float:
    """Return the seconds of a reconciliation.

    Raises:
        AssertionError: It does not say that both sides agree.
    """
    results = []
    took = seconds(lambda: results.append(reconcile(lake.settings, lake.pipeline)))
    if (
        results[0].finding.verdict is not Verdict.CONSISTENT
        or results[0].finding.rows.compared != lake.rows // lakes.PASSES
    ):
        msg = (
            f"Reconcile: expected CONSISTENT over {lake.rows // lakes.PASSES} rows, got: {results[0].finding.sentence}"
        )
        raise AssertionError(msg)
    return took


def plain(stream: DataFrame) -> DataFrame:
    """Return the stream's rows as they are: one for each key."""
    return stream.select(*KEY, *MEASURES)


def folded(stream: DataFrame) -> DataFrame:
    """Return the stream's rows merged by key."""
    return stream.groupBy(*KEY).agg(
        F.sum("n").alias("n"), F.sum("total").alias("total"), F.max("worst").alias("worst"), F.sum("ids").alias("ids")
    )


def _variants(bench: Bench, lake: Lake, shape: Callable[[DataFrame], DataFrame]) -> dict[str, Callable[[int], float]]:
    spark = bench.spark

    def theirs(_: int) -> float:
        found = []

        def compare() -> None:
            stream = spark.read.format("delta").load(lake.version.uri).where("_kind = 'partial'")
            batch = spark.read.format("delta").load(batch_uri(lake.settings, lake.pipeline)).select(*KEY, *MEASURES)
            found.append(datacompy_spark.matches(spark, batch, shape(stream), key=KEY))

        took = seconds(compare)
        if found != [True]:
            msg = "DataComPy: expected equal tables, got others."
            raise AssertionError(msg)
        return took

    return {"ours": lambda _: once(lake), "DataComPy": theirs}


def _named(samples: Samples, state: str) -> Samples:
    return {f"{name}, {state}": numbers for name, numbers in samples.items()}
