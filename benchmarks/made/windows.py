"""The streaming path over windows of a kind, from the first record to the folded answer, beside a hand-made batch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
from pyspark.sql import Column

from benchmarks.bench import BACKLOG_NOTE, Bench
from benchmarks.made import events
from benchmarks.made.streams import Streams
from benchmarks.made.triggers import listening
from benchmarks.peers import batch_windows
from benchmarks.rounds import interleaved, seconds
from benchmarks.shown.figure import Figure, ratio
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.log.address import bootstrap_servers
from cutover.quoting import literal
from cutover.records.classes import Class
from cutover.records.fold import finish_sql

TIMES = 10
COLUMNS = "epoch_us(window_start), epoch_us(window_end), k, n, total, worst, ids"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What is compared."""

    name: str  # of the figure
    title: str
    window: str  # as a definition has it
    theirs: Callable[[], Column]  # as Spark has it
    sent: Callable[[int], Iterator[tuple[int, bytes]]]  # so many events
    events: int
    cap: int  # records of an epoch, at most
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic of so many events."""

    bench: Bench
    kind: Kind
    pipeline: Pipeline
    rows: int

    def ours(self, number: int) -> float:
        """Drain the topic by the driver as it is, then fold the answer.

        Returns:
            Seconds from the first trigger to the last commit, and those of the fold.
        """
        triggers = self.bench.once("triggers", lambda: listening(self.bench.spark))
        stream = Streams(bench=self.bench, pipeline=self.pipeline, rows=self.rows, triggers=triggers)
        return stream.ours(number).seconds + seconds(lambda: self._fold(number))

    def theirs(self, _: int) -> float:
        """Run the hand-written batch over the same topic; return the seconds."""
        spark, address = self.bench.spark, bootstrap_servers(self.bench.settings)
        topic, window = self.pipeline.source.name, self.kind.theirs()
        return seconds(
            lambda: batch_windows.run(spark, bootstrap=address, topic=topic, window=window, into=self._place)
        )

    def check(self, number: int) -> str:
        """Compare both answers.

        Raises:
            AssertionError: They differ.
        """
        with queries.connect() as connection:
            self._bind(connection, number)
            theirs = f"SELECT * FROM read_parquet({literal(f'{self._place}/*.parquet')})"
            both = f"ours AS (SELECT {COLUMNS} FROM answer), theirs AS (SELECT {COLUMNS} FROM ({theirs}))"
            query = f"""
                WITH {both} SELECT (SELECT count(*) FROM (FROM ours EXCEPT ALL FROM theirs)),
                    (SELECT count(*) FROM (FROM theirs EXCEPT ALL FROM ours)), (SELECT count(*) FROM ours)
            """
            here, there, rows = connection.execute(query).fetchall()[0]
        if here or there:
            msg = f"{self.kind.title}: {here} and {there} of {rows} rows differ from the hand-written batch."
            raise AssertionError(msg)
        return f"our fold and the hand-written batch: {rows:,} (window, key) rows of {self.rows:,} events"

    def _fold(self, number: int) -> None:
        with queries.connect() as connection:
            self._bind(connection, number)

    def _bind(self, connection: duckdb.DuckDBPyConnection, number: int) -> None:
        pipeline = self._renamed(number)
        version = versions.current(self.bench.settings, pipeline)
        if version is None:
            msg = f"Stream `{pipeline.name}`: expected an epoch log, found none."
            raise AssertionError(msg)
        log = EpochLog(version.uri)
        newest = log.newest()
        log.relation(connection, "log", epoch=-1 if newest is None else newest.epoch)
        folded = finish_sql(pipeline, "log", keep=(Class.ACCEPTED, Class.LATE))
        connection.execute(f"CREATE TEMP TABLE answer AS {folded}")

    @property
    def _place(self) -> Path:
        return self.bench.settings.home / "peers" / self.pipeline.name

    def _renamed(self, number: int) -> Pipeline:
        return replace(self.pipeline, name=f"{self.pipeline.name}_{number}")


def measure(bench: Bench, kind: Kind) -> Figure:
    """Return the seconds of both at full size, and of ours at a tenth of it, by rounds."""
    bench = bench.of_backlog()
    large = bench.sized(kind.events, least=TIMES)
    topics = {size: _topic(bench, kind, size) for size in (large // TIMES, large)}
    small, full = topics.values()
    variants = {"ours": full.ours, "hand-written": full.theirs, "ours, a tenth": small.ours}
    samples = interleaved(variants, bench.rounds)
    small.theirs(0)
    return Figure(
        name=kind.name,
        title=kind.title,
        values=(
            ratio(f"{kind.name}_hand_written", samples["ours"], samples["hand-written"]),
            ratio(f"{kind.name}_growth", samples["ours"], samples["ours, a tenth"]),
        ),
        sizes={"events": full.rows, "cap": full.pipeline.max_rows_per_epoch, "rounds": bench.rounds},
        unit="s",
        samples=samples,
        equal=(full.check(bench.rounds), small.check(bench.rounds)),
        notes=(*kind.notes, BACKLOG_NOTE),
        full=full.rows >= kind.events,
    )


def _topic(bench: Bench, kind: Kind, size: int) -> Topic:
    name = f"{kind.name}_{size}"
    cap = min(kind.cap, size // 2)  # two epochs at least
    pipeline = events.define(bench.settings, name, cap=cap, out_of_orderness="1 day", window=kind.window)
    rows = events.fill(bench.settings, name, kind.sent(size))
    return Topic(bench=bench, kind=kind, pipeline=pipeline, rows=rows)
