"""The soak: the real driver over many small epochs, and whether anything grows.

    make soak EPOCHS=10000

A broker of its own, a producer at a steady rate, the driver as it is in production but for the pause between epochs.
Every epoch is noted; every few seconds what the driver takes and leaves behind is counted from outside. Then the
Committer and the Compactor alone over as many prepared epochs. Writes docs/soak.json, docs/soak.md, docs/soak.svg.
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
from cutover.infra.processes.memory import proportional_set_size
from cutover.lake.control import versions
from cutover.lake.tables import delta
from cutover.log.kafka import LogClient
from cutover.settings import Settings

SAMPLE_SECONDS = 5.0


def soak(home: Path, bootstrap: str, epochs: int, rate: int, minutes: float) -> None:
    """Run the driver until it has committed so many epochs, or for so many minutes; samples go to `samples.jsonl`."""
    settings, topic = settings_of(home, bootstrap), "soak"
    LogClient(settings).create_topic(topic, partitions=workload.PARTITIONS, config={"retention.ms": "-1"})
    where = ["--topic", topic, "--bootstrap", bootstrap]
    samples, deadline = workload.Notes(home / "samples.jsonl"), time.monotonic() + 60 * minutes
    with (
        child("benchmarks.soak.producer", home / "producer.log", [*where, "--rate", str(rate)]),
        child(
            "benchmarks.soak.driver", home / "driver.log", [*where, "--home", str(home), "--epochs", str(epochs)]
        ) as it,
    ):
        while time.monotonic() < deadline:
            try:
                it.wait(SAMPLE_SECONDS)
            except psutil.TimeoutExpired:
                samples.add(**sample(settings, topic, it))
                continue
            break


def sample(settings: Settings, topic: str, driver: psutil.Popen) -> dict[str, object]:
    """Return what the driver takes and leaves behind now: bytes and numbers of files."""
    java = [each for each in driver.children(recursive=True) if each.name() == "java"]
    found: dict[str, object] = {
        "at": time.time(),
        "driver_rss": driver.memory_info().rss,
        "driver_pss": proportional_set_size(driver.pid),
        "jvm_rss": sum(each.memory_info().rss for each in java),
        "jvm_pss": sum(proportional_set_size(each.pid) for each in java),
    }
    version = versions.current(settings, workload.pipeline(topic))
    if version is None or not delta.exists(version.uri):
        return found
    root = Path(version.uri)
    try:
        listed = len(pa.table(delta.open_table(version.uri).get_add_actions()))
    except LakeError:
        listed = None  # its log was tidied between listing and reading
    data = sum(len(files) for folder, _, files in os.walk(root) if "_delta_log" not in folder)
    logged = len(os.listdir(root / "_delta_log"))  # noqa: PTH208 -- names only, of a large folder
    return {**found, "listed": listed, "data": data, "log": logged}


def main() -> None:
    """Run, and write the three files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10_000)
    parser.add_argument("--rate", type=int, default=500, help="records a second")
    parser.add_argument("--minutes", type=float, default=120.0, help="longest time of the driver's part")
    parser.add_argument("--bootstrap", help="a broker that runs; none: one of its own")
    parser.add_argument("--home", type=Path, help="keeps all state there; none: a temporary folder")
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
        publish.write(home, args.out, asked=args.epochs, rate=args.rate, note=args.note)


if __name__ == "__main__":
    main()
