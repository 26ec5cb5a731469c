"""Goals of the figures on 2 cores, used by the runner and by the page."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Goal of one value: its description, its bound and its unit."""

    name: str
    text: str
    limit: float | None  # None: measured without a limit
    at: Literal["most", "least"] = "most"
    unit: str = "x"  # x: a ratio; s; events/s

    def reached(self, value: float) -> bool | None:
        """Check that a value is within the limit; None if there is no limit."""
        if self.limit is None:
            return None
        return value <= self.limit if self.at == "most" else value >= self.limit

    @property
    def description(self) -> str:
        """The limit as text."""
        if self.limit is None:
            return "measured"
        sign = "<=" if self.at == "most" else ">="
        return f"{sign} {self.limit:g}{'' if self.unit == 'x' else ' ' + self.unit}"


GOALS = (
    Goal(name="epoch_noop", text="Epoch of 5,000 events: our trigger time / the same query to a noop sink", limit=1.15),
    Goal(
        name="epoch_hand_written",
        text="Epoch of 5,000 events: our trigger time / native windows, RocksDB, MERGE into Delta",
        limit=0.3,
    ),
    Goal(name="catchup_noop", text="Catch-up throughput: ours / the same query to a noop sink", limit=0.8, at="least"),
    Goal(name="catchup_hand_written", text="Catch-up throughput: ours / the hand-written job", limit=1.5, at="least"),
    Goal(
        name="latency_p50", text="Produce call to visible for a fresh reader, 5,000 events/s: p50", limit=0.7, unit="s"
    ),
    Goal(
        name="latency_p99", text="Produce call to visible for a fresh reader, 5,000 events/s: p99", limit=2.0, unit="s"
    ),
    Goal(name="sustained_rate", text="Sustained rate, before the lag grows", limit=None, at="least", unit="events/s"),
    Goal(name="overload_recovery", text="Time to catch up after the overload", limit=None, unit="s"),
    Goal(name="batch_noop", text="Batch recompute: throughput / the same scan to a noop sink", limit=0.75, at="least"),
    Goal(
        name="reconcile_compacted",
        text="Reconcile equal rows, stream side compacted: times faster than DataComPy on Spark",
        limit=10,
        at="least",
    ),
    Goal(
        name="reconcile_partial",
        text="Reconcile equal rows, 3 partial rows per key to fold: times faster than DataComPy on Spark",
        limit=4,
        at="least",
    ),
    Goal(
        name="diff_datacompy",
        text="Diff of equal tables of 5 M rows: times faster than DataComPy on Spark",
        limit=10,
        at="least",
    ),
    Goal(name="diff_except", text="Diff of equal tables of 5 M rows: time / DuckDB EXCEPT ALL, both ways", limit=1),
    Goal(name="diff_join", text="Diff of equal tables of 5 M rows: time / a handwritten full join in DuckDB", limit=1),
    Goal(
        name="diff_segments",
        text="Diff of equal tables of 5 M rows: time / checksums of segments like reladiff",
        limit=1,
    ),
    Goal(
        name="diff_changed_datacompy",
        text="Diff of 5 M rows, 0.1 % different: times faster than DataComPy on Spark",
        limit=5,
        at="least",
    ),
    Goal(name="diff_changed_except", text="Diff of 5 M rows, 0.1 % different: time / EXCEPT ALL", limit=None),
    Goal(name="diff_changed_join", text="Diff of 5 M rows, 0.1 % different: time / full join", limit=None),
    Goal(name="diff_again", text="Second diff after 1 % of windows changed on both sides: time / the first", limit=0.1),
    Goal(name="diff_again_unchanged", text="Second diff, nothing changed: time / the first", limit=None),
    Goal(
        name="diff_again_differing",
        text="Second diff after 1 % of windows changed on one side: time / the first",
        limit=0.1,
    ),
    Goal(name="growth_diff", text="2 M to 20 M rows: time of a diff", limit=10.5),
    Goal(name="memory_diff", text="1 M to 20 M rows: highest memory of `cutover diff`", limit=1.5),
    Goal(name="growth_batch", text="10 x the data: time of a batch recompute", limit=10.5),
    Goal(name="growth_fold", text="10 x the data: time of a fold", limit=10.5),
    Goal(name="growth_reconcile", text="10 x the data: time of a reconcile", limit=10.5),
    Goal(
        name="lookup_small",
        text="Epoch of 5,000 events: with a lookup of 1,000 rows / without one",
        limit=1.15,
    ),
    Goal(
        name="lookup_large",
        text="Epoch of 5,000 events: with a lookup of 1,000,000 rows / without one",
        limit=None,
    ),
    Goal(name="marks_epoch", text="Epoch of 5,000 events: with marks of its last records / without them", limit=1.03),
    Goal(name="marks_comparison", text="Comparison of the benchmark's log with its marks", limit=None, unit="s"),
    Goal(
        name="yahoo_hand_written",
        text="Yahoo Streaming Benchmark: throughput, ours / the hand-written job",
        limit=1.5,
        at="least",
    ),
    Goal(
        name="yahoo_noop",
        text="Yahoo Streaming Benchmark: throughput, ours / the same query to a noop sink",
        limit=None,
        at="least",
    ),
    Goal(
        name="yahoo_latency",
        text="Yahoo Streaming Benchmark, 5,000 events/s: p99 from produce call to commit, ours / the hand-written job",
        limit=None,
    ),
    Goal(name="dedup_epoch", text="Epoch of 5,000 events, an hour of stored ids: with ids / without", limit=1.5),
    Goal(name="dedup_batch", text="A log counted once by ids: stream / Spark batch with dropDuplicates", limit=1.3),
    Goal(name="dedup_growth", text="10 x the data: time of a stream with ids", limit=10.5),
    Goal(
        name="follow_rate",
        text="Records that a follower of a job repeats",
        limit=50_000,
        at="least",
        unit="events/s",
    ),
    Goal(name="follow_cpu", text="Follower of a job: processor time / that of the job", limit=0.5),
    *(
        Goal(name=f"foreign_{name}", text=f"Diff of 1 M rows in {text}: time / Parquet", limit=1.2)
        for name, text in {
            "delta": "Delta",
            "iceberg": "Iceberg",
            "iceberg_copied": "Iceberg with a deleted row",
            "duckdb": "DuckDB",
            "postgresql": "PostgreSQL",
        }.items()
    ),
    Goal(name="avro_epoch", text="Epoch of 5,000 events: trigger time with values in Avro / in JSON", limit=1.1),
    Goal(name="follow_poll", text="Follower of an idle job: processor time of a poll", limit=None, unit="s"),
    Goal(
        name="sessions_hand_written",
        text="1 M events into sessions of 100 k keys: drain and fold / Spark's batch aggregate",
        limit=1.3,
    ),
    Goal(name="sessions_growth", text="10 x the data: time of a drain and a fold of sessions", limit=10.5),
    Goal(
        name="sliding_hand_written",
        text="1 M events into 60 sliding windows each: drain and fold / Spark's batch aggregate",
        limit=1.3,
    ),
    Goal(name="sliding_growth", text="10 x the data: time of a drain and a fold of sliding windows", limit=10.5),
    Goal(name="restart", text="Restart after SIGKILL with a backlog: to the first commit", limit=15, unit="s"),
    Goal(
        name="join_hand_written",
        text="Windowed join of two topics, drained and read: time / a minimal Spark batch join of the same rows",
        limit=1.3,
    ),
    Goal(name="growth_join", text="10 x the data: time of a windowed join", limit=10.5),
    Goal(name="command_help", text="Processor time of `cutover --help`", limit=0.5, unit="s"),
    Goal(name="command_lint", text="Processor time of `cutover lint`", limit=0.5, unit="s"),
    Goal(name="command_status", text="Processor time of `cutover status`", limit=0.5, unit="s"),
    Goal(name="command_sql", text="Processor time of `cutover sql`", limit=1.2, unit="s"),
    Goal(name="command_watch", text="Processor time of `cutover watch --once`", limit=1.2, unit="s"),
    Goal(name="command_gate", text="Processor time of `cutover gate show`", limit=1.2, unit="s"),
    Goal(name="idle_cpu", text="Idle installation: processor time, scaled to the goal's machine", limit=10, unit="%"),
)
BY_NAME = {goal.name: goal for goal in GOALS}
