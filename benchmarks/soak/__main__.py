"""Soak test: the driver over many small epochs, to detect growth of times, files and memory.

    make soak EPOCHS=10000

It runs a broker, a producer with a steady rate, and the driver with its production settings, except for the pause
between epochs. The driver records each epoch; every few seconds its memory and files are measured from outside. Then
the Committer and the Compactor run alone over as many prepared epochs. The results are docs/soak.json, docs/soak.md and
docs/soak.svg.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pyarrow as pa

from benchmarks.soak import publish, workload
from benchmarks.soak.driver import settings_of
from benchmarks.soak.processes import broker, child
from cutover.errors import LakeError
from cutover.infra.processes.family import proportional_set_size
from cutover.lake.control import versions
from cutover.lake.tables import delta
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings

SAMPLE_SECONDS = 5.0


def soak(home: Path, bootstrap: str, epochs: int, rate: int, minutes: float) -> None:
    """Run the driver for a number of epochs, at most for `minutes`, and write samples to `samples.jsonl`."""
    settings, topic = settings_of(home, bootstrap), "soak"
    LogClient(settings).create_topic(topic, partitions=workload.PARTITIONS, config={"retention.ms": "-1"})
    arguments = ["--topic", topic, "--bootstrap", bootstrap]
    samples, deadline = workload.Notes(home / "samples.jsonl"), time.monotonic() + 60 * minutes
    with (
        child("benchmarks.soak.producer", home / "producer.log", [*arguments, "--rate", str(rate)]),
        child(
            "benchmarks.soak.driver", home / "driver.log", [*arguments, "--home", str(home), "--epochs", str(epochs)]
        ) as driver,
    ):
        while time.monotonic() < deadline:
            try:
                driver.wait(SAMPLE_SECONDS)
            except psutil.TimeoutExpired:
                samples.add(**sample(settings, topic, driver))
                continue
            break


def sample(settings: Settings, topic: str, driver: psutil.Popen) -> dict[str, object]:
    """Measure the memory of the driver in bytes, and the numbers of its files."""
    java = [child_process for child_process in driver.children(recursive=True) if child_process.name() == "java"]
    values: dict[str, object] = {
        "at": time.time(),
        "driver_rss": driver.memory_info().rss,
        "driver_pss": proportional_set_size(driver.pid),
        "jvm_rss": sum(process.memory_info().rss for process in java),
        "jvm_pss": sum(proportional_set_size(process.pid) for process in java),
    }
    version = versions.find_current_version(PipelineLake(settings, workload.pipeline(topic)))
    if version is None or not delta.exists(version.uri):
        return values
    root = Path(version.uri)
    try:
        listed_files = len(pa.table(delta.open_table(version.uri).get_add_actions()))
    except LakeError:
        listed_files = None  # its log was cleaned up between listing and reading
    data = sum(len(files) for folder, _, files in os.walk(root) if "_delta_log" not in folder)
    logged = len(os.listdir(root / "_delta_log"))  # noqa: PTH208 -- names only, of a large folder
    return {**values, "listed": listed_files, "data": data, "log": logged}


def main() -> None:
    """Run the soak test, and write its three files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10_000)
    parser.add_argument("--rate", type=int, default=500, help="records a second")
    parser.add_argument("--minutes", type=float, default=120.0, help="longest time of the driver's part")
    parser.add_argument("--bootstrap", help="address of a running broker; default: start one")
    parser.add_argument("--home", type=Path, help="folder that keeps all state; default: a temporary one")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--note", default="", help="a sentence about the circumstances, for the page")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        home = args.home or Path(temporary)
        home.mkdir(parents=True, exist_ok=True)
        with broker(home, args.bootstrap) as bootstrap:
            soak(home, bootstrap, args.epochs, args.rate, args.minutes)
        alone = ["-m", "benchmarks.soak.commits", "--epochs", str(args.epochs), "--home", str(home / "alone")]
        subprocess.run([sys.executable, *alone], check=True)
        publish.write(home, args.out, requested=args.epochs, rate=args.rate, note=args.note)


if __name__ == "__main__":
    main()
