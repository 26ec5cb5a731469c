"""Throughput of a batch recompute, compared with a scan of the same records into a noop sink."""

from benchmarks.bench import Bench
from benchmarks.peers import batch_jobs
from benchmarks.results.figure import Figure, ratio
from benchmarks.rounds import measure_interleaved, time_call
from benchmarks.workloads import lakes
from benchmarks.workloads.lakes import LakeWorkload
from cutover.lake.serving import views
from cutover.log.options import bootstrap_servers

EVENTS = 1_000_000


def measure_batch(bench: Bench) -> Figure:
    """Measure the throughput of both, by rounds."""
    workload = lakes.make_event_lake(bench, bench.sized(EVENTS))
    spark, address, pipeline = bench.spark, bootstrap_servers(bench.settings), workload.lake.pipeline

    def noop(_: int) -> float:
        return workload.rows / time_call(lambda: batch_jobs.scan(spark, bootstrap=address, pipeline=pipeline))

    def ours(_: int) -> float:
        return workload.rows / time_call(workload.recompute)

    samples = measure_interleaved({"ours": ours, "noop": noop}, bench.rounds)
    return Figure(
        name="batch",
        title="Batch recompute throughput",
        values=(ratio("batch_noop", samples["ours"], samples["noop"]),),
        sizes={"events": workload.rows, "rounds": bench.rounds},
        unit="events/s",
        samples=samples,
        equal=(check(workload),),
        notes=("Ours is a complete run: pin, scan, index, fold, publication in one commit.",),
        full=workload.rows >= EVENTS,
    )


def check(workload: LakeWorkload) -> str:
    """Compare the batch table with the stream's fold, and both with the sent events.

    Raises:
        AssertionError: They differ.
    """
    columns = "window_start, window_end, k, n, total, worst, ids"
    with views.open_views(workload.lake) as connection:
        query = f"""
            SELECT (SELECT count(*) FROM (SELECT {columns} FROM batch EXCEPT ALL SELECT {columns} FROM streaming)),
                   (SELECT count(*) FROM (SELECT {columns} FROM streaming EXCEPT ALL SELECT {columns} FROM batch)),
                   (SELECT count(*) FROM batch), (SELECT sum(n)::BIGINT FROM batch), (SELECT sum(ids) FROM batch)
        """
        only_in_batch, only_in_stream, rows, event_count, ids = connection.execute(query).fetchall()[0]
    sent_events = workload.rows
    if only_in_batch or only_in_stream or event_count != sent_events or ids != sent_events * (sent_events - 1) // 2:
        msg = f"Batch: {only_in_batch} rows only in batch, {only_in_stream} only in the stream, of {rows}; "
        raise AssertionError(msg + f"{event_count} of {sent_events} events.")
    return (
        f"the batch table and the stream's fold: {rows:,} (window, key) rows; all {event_count:,} events, ids added up"
    )
