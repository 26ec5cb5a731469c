"""What a stream and a batch cannot agree on, why not, and what to write instead."""

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
        why="it asks the clock, and stream and batch run at other times",
        instead="the record's event time or its log timestamp",
    ),
    Construct.RANDOM: ParityRule(
        why="it gives another value in each run, task or file",
        instead="a hash of columns of the record, or partition and offset",
    ),
    Construct.ORDER: ParityRule(
        why="its result depends on the order of rows, which no engine promises",
        instead="sort_array around a list, or min, max, min_by over a column that has no ties",
    ),
    Construct.TIES: ParityRule(
        why="rows that are equal in the ORDER BY are numbered as they come",
        instead="an ORDER BY that ends with partition and offset, or another unique column",
    ),
    Construct.LIMIT: ParityRule(
        why="which rows remain depends on the order in which files and tasks are read",
        instead="a condition over the rows; or ORDER BY over unique columns before LIMIT",
    ),
    Construct.FLOAT_SUM: ParityRule(
        why="sums of floating-point numbers depend on the order in which partial sums meet",
        instead="a decimal, or whole units such as cents",
    ),
    Construct.TIME_ZONE: ParityRule(
        why="it goes by the session's time zone, which may differ between two jobs",
        instead="spark.sql.session.timeZone set in both, or from_utc_timestamp with a named zone",
    ),
    Construct.UDF: ParityRule(
        why="a function of Python that asks the clock, chance or another system gives another value each time",
        instead="columns of the record; what comes from elsewhere as a versioned table that both join",
    ),
    Construct.WATERMARK: ParityRule(
        why="the stream drops what comes behind the watermark without a word, and a batch ignores the watermark",
        instead="late rows kept in a ledger, and batch told which they were",
    ),
    Construct.IDLE_WATERMARK: ParityRule(
        why="the watermark drops no late row and removes none of the state behind it",
        instead="a window of the event time in the grouping and append mode; or no watermark",
    ),
    Construct.DEDUP: ParityRule(
        why="a stream compares a record with its micro-batch or with ids not yet forgotten, a batch with all records",
        instead="ids with a declared horizon, the same in both, and what was forgotten kept",
    ),
    Construct.CHAINED: ParityRule(
        why="the second stateful operator gets rows when the first one lets them go, so what is late differs",
        instead="one stateful operator a query; the second reads what the first has written",
    ),
    Construct.UNBOUNDED: ParityRule(
        why="its state never lets go: until the stream is started anew without what batch still has",
        instead="withWatermark, and for a join a bound on both event times in its condition",
    ),
    Construct.OUTPUT_MODE: ParityRule(
        why="a window is written again and again: an appending sink counts it twice, an overwriting one loses rows",
        instead="append mode, or foreachBatch with a merge by window and key",
    ),
    Construct.NOT_IDEMPOTENT: ParityRule(
        why="a micro-batch that is run again after a crash is appended again",
        instead="txnAppId and txnVersion of Delta, or a merge by key",
    ),
    Construct.MICRO_BATCH: ParityRule(
        why="a total over one micro-batch depends on where the stream cuts its input, and a batch has one cut",
        instead="the total in the stream, before foreachBatch; or totals by micro-batch that the reader adds up",
    ),
    Construct.CHECKPOINT: ParityRule(
        why="without a checkpoint of its own a query starts anew, or from another query's place",
        instead="one checkpointLocation for each query, and never another query's",
    ),
    Construct.OFFSETS: ParityRule(
        why="the stream begins at the end of the log, the batch at its beginning",
        instead='startingOffsets "earliest", or the offsets that batch begins with',
    ),
    Construct.DATA_LOSS: ParityRule(
        why="the stream goes on without records that were lost, changed or not written, which a batch may still read",
        instead='failOnDataLoss "true"; the change feed of a table that changes; an exception where a write fails',
    ),
    Construct.APPENDED_AGAIN: ParityRule(
        why="a batch that reads everything again and appends it counts each record once per run",
        instead="mode overwrite, a merge by key, or a condition that selects only what is new",
    ),
    Construct.TIMER: ParityRule(
        why="a timer of processing time fires by the clock, and a batch or a replay has other pauses between records",
        instead="timers of the event time behind a watermark: EventTimeTimeout, timeMode EventTime",
    ),
    Construct.DSTREAM: ParityRule(
        why="batches and windows of a DStream are cut by the time at which records arrive, which a batch does not know",
        instead="Structured Streaming with windows of the event time",
    ),
    Construct.NOT_UNDERSTOOD: ParityRule(
        why="what it does cannot be followed in this file, so nothing is said about what depends on it",
        instead="`plan.check(df)` in the job for what Spark makes of it, or a comparison of what both give",
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
