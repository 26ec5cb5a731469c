"""Constructs on which a stream and a batch cannot agree, with the reason and the replacement."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Construct(StrEnum):
    """A construct by its short name."""

    CLOCK = "clock"
    RANDOM = "random"
    ORDER = "order"
    TIES = "ties"
    LIMIT = "limit"
    FLOAT_SUM = "float-sum"
    TIME_ZONE = "time-zone"
    UDF = "udf"
    WATERMARK = "watermark"
    IDLE_WATERMARK = "watermark-without-effect"
    DEDUP = "dedup-within-watermark"
    CHAINED = "chained-state"
    UNBOUNDED = "unbounded-state"
    OUTPUT_MODE = "output-mode"
    NOT_IDEMPOTENT = "not-idempotent"
    MICRO_BATCH = "micro-batch-totals"
    CHECKPOINT = "checkpoint"
    OFFSETS = "offsets"
    DATA_LOSS = "data-loss"
    APPENDED_AGAIN = "appended-again"
    TIMER = "processing-time-timer"
    DSTREAM = "dstream"
    NOT_UNDERSTOOD = "not-understood"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParityRule:
    """Why two runs of the same text differ, and what to write instead."""

    why: str
    instead: str


RULES: Mapping[Construct, ParityRule] = {
    Construct.CLOCK: ParityRule(
        why="it reads the clock, and stream and batch run at different times",
        instead="the record's event time or its log timestamp",
    ),
    Construct.RANDOM: ParityRule(
        why="it returns a different value in each run, task or file",
        instead="a hash of columns of the record, or partition and offset",
    ),
    Construct.ORDER: ParityRule(
        why="its result depends on the order of rows, which no engine guarantees",
        instead="sort_array around a list, or min, max, min_by over a column that has no ties",
    ),
    Construct.TIES: ParityRule(
        why="rows that are equal in the ORDER BY are numbered in the order in which they arrive",
        instead="an ORDER BY that ends with partition and offset, or another unique column",
    ),
    Construct.LIMIT: ParityRule(
        why="which rows remain depends on the order in which files and tasks are read",
        instead="a condition over the rows; or ORDER BY over unique columns before LIMIT",
    ),
    Construct.FLOAT_SUM: ParityRule(
        why="sums of floating-point numbers depend on the order in which partial sums are added",
        instead="a decimal, or whole units such as cents",
    ),
    Construct.TIME_ZONE: ParityRule(
        why="it uses the session's time zone, which may differ between two jobs",
        instead="spark.sql.session.timeZone set in both, or from_utc_timestamp with a named zone",
    ),
    Construct.UDF: ParityRule(
        why="a Python function that reads a clock, a random value or another system returns another value each time",
        instead="columns of the record; for data of another system a versioned table that both jobs join",
    ),
    Construct.WATERMARK: ParityRule(
        why="the stream silently drops records behind the watermark, and a batch ignores the watermark",
        instead="a ledger of late rows that batch reads",
    ),
    Construct.IDLE_WATERMARK: ParityRule(
        why="the watermark drops no late row and removes no state",
        instead="a window of the event time in the grouping and append mode; or no watermark",
    ),
    Construct.DEDUP: ParityRule(
        why="a stream compares a record with its micro-batch or with the ids still in state, a batch with all records",
        instead="ids with a declared horizon, the same in both, and expired ids retained for batch",
    ),
    Construct.CHAINED: ParityRule(
        why="the second stateful operator gets rows when the first one emits them, so other rows are late",
        instead="one stateful operator per query; the second query reads the output of the first",
    ),
    Construct.UNBOUNDED: ParityRule(
        why="its state grows until the stream is restarted without it, while batch still has all rows",
        instead="withWatermark, and for a join a condition that bounds both event times",
    ),
    Construct.OUTPUT_MODE: ParityRule(
        why="a window is written repeatedly: an appending sink counts it twice, an overwriting one loses rows",
        instead="append mode, or foreachBatch with a merge by window and key",
    ),
    Construct.NOT_IDEMPOTENT: ParityRule(
        why="a micro-batch that is repeated after a crash is appended twice",
        instead="txnAppId and txnVersion of Delta, or a merge by key",
    ),
    Construct.MICRO_BATCH: ParityRule(
        why="a total over one micro-batch depends on how the stream divides its input, and a batch does not divide it",
        instead="the total in the stream, before foreachBatch; or totals by micro-batch that the reader adds up",
    ),
    Construct.CHECKPOINT: ParityRule(
        why="without a separate checkpoint a query starts from scratch, or from the position of another query",
        instead="one checkpointLocation for each query, and never another query's",
    ),
    Construct.OFFSETS: ParityRule(
        why="the stream begins at the end of the log, the batch at its beginning",
        instead='startingOffsets "earliest", or the offsets that batch begins with',
    ),
    Construct.DATA_LOSS: ParityRule(
        why="the stream continues without records that were lost, changed or not written; a batch may still read them",
        instead='failOnDataLoss "true"; the change feed of a table that changes; an exception if a write fails',
    ),
    Construct.APPENDED_AGAIN: ParityRule(
        why="a batch that reads everything again and appends it counts each record once per run",
        instead="mode overwrite, a merge by key, or a condition that selects only what is new",
    ),
    Construct.TIMER: ParityRule(
        why="a processing-time timer fires by the clock, and a batch or a replay has other pauses between records",
        instead="event-time timers behind a watermark: EventTimeTimeout, timeMode EventTime",
    ),
    Construct.DSTREAM: ParityRule(
        why="batches and windows of a DStream depend on the arrival time of records, which a batch does not know",
        instead="Structured Streaming with windows of the event time",
    ),
    Construct.NOT_UNDERSTOOD: ParityRule(
        why="its effect cannot be determined from this file, so everything that depends on it is unchecked",
        instead="`plan.check(df)` in the job, which checks Spark's plan, or a comparison of both results",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ParityFinding:
    """A construct in a file."""

    file: str
    line: int
    construct: Construct
    what: str  # the function, option or method

    @property
    def sentence(self) -> str:
        """Say what it is, why it matters, and what to write instead."""
        rule = RULES[self.construct]
        message = f"{self.file}:{self.line}: {self.construct}: `{self.what}`: {rule.why}; instead: {rule.instead}"
        return f"{message} ({self.page})."

    @property
    def page(self) -> str:
        """Return where the construct is described, with its place on the page."""
        return f"docs/parity.md#{self.construct}"
