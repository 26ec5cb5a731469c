"""Committer and Compactor alone, without Spark and without a log, over prepared epochs.

    .venv/bin/python -m benchmarks.soak.commits --epochs 10000

Each epoch has the partial aggregates of KEYS keys in two windows, a few late records, and its record, like an epoch of
the driver; the fold runs in its thread, as in the driver. The log file gets one JSON line per epoch.
"""

import argparse
import json
import os
import shutil
import time
from pathlib import Path

import psutil
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from benchmarks.soak import workload
from cutover.clock import SystemClock
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import epoch_log_schema
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.settings import KafkaSettings, Settings
from cutover.streaming.compaction.compactor import Compactor
from cutover.streaming.process.context import DriverContext
from cutover.streaming.process.heartbeat import HeartbeatWriter, first_beat
from cutover.streaming.sink.committer import NO_HOOKS, Committer

SAMPLE_EVERY = 20
CONTROL_EVERY, YOUNG_EPOCHS = 4, 200
SCALED_LOG = {"delta.logRetentionDuration": "interval 40 seconds"}
"""About as many commits as in the ten minutes of `SHORT_LOG` at two per second; here they are thirty times faster."""


def run(settings: Settings, epochs: int, path: Path) -> None:
    """Commit a number of epochs and record their times."""
    pipeline, clock = workload.pipeline("soak"), SystemClock()
    notes = workload.Notes(path)
    beat = HeartbeatWriter(settings.run_dir / "heartbeat.json", first_beat("soak", clock), seconds=60, clock=clock)
    client = LogClient(settings)  # unused here
    place = settings.run_dir / "soak"
    lake = PipelineLake(settings, pipeline)
    context = DriverContext(lake=lake, client=client, clock=clock, probe=notes, beat=beat, place=place)
    version = versions.open_or_create(lake, clock)
    schema = epoch_log_schema(pipeline)
    table = delta.ensure(version.uri, schema, partition_by=["_kind"], configuration=SCALED_LOG)
    committer = Committer(version, "soak", table, reload_every=settings.stream.reload_every)
    compactor = Compactor(context, committer)
    prepared, control = workload.Prepared(pipeline), Control(lake)
    process, log_folder = psutil.Process(), Path(version.uri) / "_delta_log"
    for epoch in range(epochs):
        record = _record(version, epoch)
        rows = prepared.of(record)
        began = time.perf_counter()
        committer.commit(rows, record)
        committed = time.perf_counter()
        compactor.step()
        ended = time.perf_counter()
        control_seconds = {"control": control.commit(rows)} if epoch % CONTROL_EVERY == 0 else {}
        notes.add(epoch=epoch, at=time.time(), commit=committed - began, step=ended - committed, **control_seconds)
        if epoch % SAMPLE_EVERY == 0:
            listed_files = len(pa.table(committer.table.get_add_actions()))
            logged = len(os.listdir(log_folder))  # noqa: PTH208 -- names only, of a large folder
            notes.add(sample=epoch, at=time.time(), log=logged, listed=listed_files, driver=process.memory_info().rss)


class Control:
    """Control table that is always young: it gets the same rows, and is replaced by an empty one every 200 epochs."""

    def __init__(self, lake: PipelineLake) -> None:
        self._home, self._schema = lake.settings.home.resolve() / "control", epoch_log_schema(lake.pipeline)
        self._number = 0
        self._table: DeltaTable | None = None

    def commit(self, rows: pa.Table) -> float:
        """Append rows and return the seconds of the commit."""
        if self._table is None or self._number % (YOUNG_EPOCHS // CONTROL_EVERY) == 0:
            shutil.rmtree(self._home, ignore_errors=True)
            self._table = delta.ensure(str(self._home), self._schema, partition_by=["_kind"])
        self._number += 1
        properties = CommitProperties(app_transactions=[Transaction("control", self._number)])
        began = time.perf_counter()
        write_deltalake(
            self._table,
            rows,
            mode="append",
            partition_by=["_kind"],
            commit_properties=properties,
            post_commithook_properties=NO_HOOKS,
        )
        return time.perf_counter() - began


def _record(version: Version, epoch: int) -> EpochRecord:
    return EpochRecord(
        epoch=epoch,
        run_id="soak",
        topic="soak",
        topic_id="none",
        cluster_id="none",
        start={0: epoch * 100},
        end={0: (epoch + 1) * 100},
        max_event={0: epoch * 1_000_000},
        watermark_before=None if epoch == 0 else (epoch - 1) * 1_000_000,
        watermark_after=epoch * 1_000_000,
        result_fingerprint=version.result_fingerprint,
        lateness_fingerprint=version.lateness_fingerprint,
    )


def main() -> None:
    """Run the test and print the name of the log file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10_000)
    parser.add_argument("--home", type=Path, required=True)
    args = parser.parse_args()
    settings = Settings(home=args.home, kafka=KafkaSettings(bootstrap_servers="127.0.0.1:1"))
    run(settings, args.epochs, args.home / "commits.jsonl")
    print(json.dumps({"notes": str(args.home / "commits.jsonl")}))


if __name__ == "__main__":
    main()
