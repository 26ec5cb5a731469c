"""What the batch path costs beside its own scan: a whole recompute, and the same records read and thrown away."""

from benchmarks.bench import Bench
from benchmarks.made import lakes
from benchmarks.made.lakes import Lake
from benchmarks.peers import batch_noop
from benchmarks.rounds import interleaved, seconds
from benchmarks.shown.figure import Figure, ratio
from cutover.lake.serving import views
from cutover.log.address import bootstrap_servers

EVENTS = 1_000_000


def measure(bench: Bench) -> Figure:
    """Return the throughput of both, by rounds."""
    lake = lakes.of_events(bench, bench.sized(EVENTS))
    spark, address = bench.spark, bootstrap_servers(bench.settings)

    def noop(_: int) -> float:
        return lake.rows / seconds(lambda: batch_noop.scan(spark, bootstrap=address, pipeline=lake.pipeline))

    samples = interleaved({"ours": lambda _: lake.rows / seconds(lake.recompute), "noop": noop}, bench.rounds)
    return Figure(
        name="batch",
        title="Batch recompute throughput",
        values=(ratio("batch_noop", samples["ours"], samples["noop"]),),
        sizes={"events": lake.rows, "rounds": bench.rounds},
        unit="events/s",
        samples=samples,
        equal=(checked(lake),),
        notes=("Ours is a complete run: pin, scan, index, fold, publication in one commit.",),
        full=lake.rows >= EVENTS,
    )


def checked(lake: Lake) -> str:
    """Compare the batch table with the stream's fold, and both with what was sent.

    Raises:
        AssertionError: They differ.
    """
    columns = "window_start, window_end, k, n, total, worst, ids"
    with views.connect(lake.settings, lake.pipeline) as connection:
        query = f"""
            SELECT (SELECT count(*) FROM (SELECT {columns} FROM batch EXCEPT ALL SELECT {columns} FROM streaming)),
                   (SELECT count(*) FROM (SELECT {columns} FROM streaming EXCEPT ALL SELECT {columns} FROM batch)),
                   (SELECT count(*) FROM batch), (SELECT sum(n)::BIGINT FROM batch), (SELECT sum(ids) FROM batch)
        """
        here, there, rows, counted, ids = connection.execute(query).fetchall()[0]
    if here or there or counted != lake.rows or ids != lake.rows * (lake.rows - 1) // 2:
        msg = f"Batch: {here} and {there} of {rows} rows differ from the stream's; {counted} of {lake.rows} events."
        raise AssertionError(msg)
    return f"the batch table and the stream's fold: {rows:,} (window, key) rows; all {counted:,} events, ids added up"
