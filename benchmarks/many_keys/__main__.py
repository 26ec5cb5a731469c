"""Memory of the driver with many keys, while epochs overflow and while they are folded.

    .venv/bin/python -m benchmarks.many_keys --keys 5000000 --epoch-rows 1000000 --passes 1

It writes each key `--passes` times into a topic. The driver reads it in epochs of `--epoch-rows` records with as many
keys, and so as many partial rows. Then small epochs are sent until the large ones are folded. Both processes, Python
and its JVM, are sampled from outside. At the end, a reader in a separate process folds everything, and its sums are
compared with the sent records. The result is written to `--out` as JSON.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from confluent_kafka import Producer

from benchmarks.many_keys import page
from benchmarks.many_keys.driver import settings_of
from benchmarks.many_keys.fill import PARTITIONS, fill, send_record
from benchmarks.results import machine
from benchmarks.soak.processes import broker, child
from cutover.infra.processes.family import proportional_set_size

PHASES = {"epochs": ("epoch.planned", "epoch.committed"), "fold": ("compact.read", "compact.committed")}
GOAL_BYTES = 3 * 2**30
TIMEOUT_SECONDS = 600.0  # for an epoch, or for all folds


class Peaks:
    """Sampler of the memory of a process and its JVM, in a thread."""

    def __init__(self, process: psutil.Process, seconds: float = 0.2) -> None:
        self.samples: list[dict[str, float]] = []
        self._process, self._seconds, self._stop = process, seconds, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextmanager
    def watching(self) -> Iterator["Peaks"]:
        """Sample until the block ends."""
        self._thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            self._thread.join(10)

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            try:
                java = [
                    child_process
                    for child_process in self._process.children(recursive=True)
                    if child_process.name() == "java"
                ]
                resident = {"python": self._process.memory_info().rss, "jvm": sum(j.memory_info().rss for j in java)}
                shared = {
                    "python_pss": proportional_set_size(self._process.pid),
                    "jvm_pss": sum(proportional_set_size(j.pid) for j in java),
                }
            except psutil.Error:
                continue
            self.samples.append({"at": time.time(), **resident, **shared})

    def peak(self, is_counted: Callable[[float], bool] = lambda _: True) -> dict[str, int]:
        """Return the peaks of each process and of both together in MiB, as RSS and as PSS (`_pss`)."""
        samples = [s for s in self.samples if is_counted(s["at"])] or [dict.fromkeys(self.samples[0], 0)]
        sums = [
            {**s, "both": s["python"] + s["jvm"], "both_pss": s["python_pss"] + s["jvm_pss"]}
            for s in samples
        ]  # fmt: skip
        names = ("python", "jvm", "both", "python_pss", "jvm_pss", "both_pss")
        return {name: round(max(s[name] for s in sums) / 2**20) for name in names}


def notes(home: Path) -> list[dict[str, float | str]]:
    """Read the notes of the driver."""
    file = home / "notes.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return [json.loads(line) for line in lines]


def has_reached(home: Path, point: str, epoch: int) -> bool:
    """Check that the driver has reached a point of an epoch or of a later one."""
    return any(n["point"] == point and int(n["of"]) >= epoch for n in notes(home))


def wait_until(look: Callable[[], bool], process: psutil.Popen, timeout: float) -> None:
    """Wait for a fact.

    Raises:
        AssertionError: It does not come about, or the driver ended.
    """
    deadline = time.monotonic() + timeout
    while not look():
        if process.poll() is not None or time.monotonic() > deadline:
            msg = "the driver ended" if process.poll() is not None else f"nothing after {timeout:.0f} s"
            raise AssertionError(msg)
        time.sleep(0.2)


def trickle(bootstrap: str, home: Path, process: psutil.Popen, *, keys: int, last_epoch: int, sent_count: int) -> int:
    """Send small epochs until the large ones are folded; return the total number of sent records."""
    producer, deadline = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1}), time.monotonic() + TIMEOUT_SECONDS
    while not has_reached(home, "compact.committed", last_epoch):
        if process.poll() is not None or time.monotonic() > deadline:
            msg = f"epochs up to {last_epoch} were not folded"
            raise AssertionError(msg)
        for _ in range(PARTITIONS):
            send_record(producer, sent_count, sent_count % keys)
            sent_count += 1
        producer.flush(30)
        time.sleep(0.3)
    return sent_count


def spans(driver_notes: list[dict[str, float | str]], phase: str) -> list[tuple[float, float]]:
    """List the start and end times of a phase."""
    start_point, end_point = PHASES[phase]
    started_at: float | None = None
    pairs = []
    for note in driver_notes:
        if note["point"] == start_point:
            started_at = float(note["at"])
        elif note["point"] == end_point and started_at is not None:
            pairs.append((started_at, float(note["at"])))
            started_at = None
    return pairs


def read(home: Path, epoch_rows: int) -> tuple[dict[str, float], int]:
    """Run the reader, which folds everything; return its totals and its peak RSS in MiB."""
    arguments = ["--home", str(home), "--epoch-rows", str(epoch_rows)]
    command = [sys.executable, "-m", "benchmarks.many_keys.reader", *arguments]
    process = psutil.Popen(command, stdout=subprocess.PIPE, text=True)
    with Peaks(process, 0.05).watching() as peaks:
        output, _ = process.communicate(timeout=TIMEOUT_SECONDS)
    return json.loads(output), peaks.peak()["python"]


def measure(home: Path, bootstrap: str, keys: int, epoch_rows: int, passes: int) -> dict[str, object]:
    """Run the driver, wait for its folds, run the reader, and return all figures.

    Raises:
        AssertionError: The reader's sums differ from those of the sent records.
    """
    epochs = -(-keys * passes // epoch_rows)
    arguments = ["--home", str(home), "--bootstrap", bootstrap, "--epoch-rows", str(epoch_rows)]
    arguments += ["--fold-every", str(epochs)]
    with child("benchmarks.many_keys.driver", home / "driver.log", arguments) as driver:
        with Peaks(driver).watching() as peaks:
            wait_until(lambda: has_reached(home, "epoch.committed", epochs - 1), driver, TIMEOUT_SECONDS * epochs)
            sent_count = trickle(bootstrap, home, driver, keys=keys, last_epoch=epochs - 1, sent_count=keys * passes)
            wait_until(lambda: has_read_all(home, sent_count), driver, TIMEOUT_SECONDS)
        driver.terminate()
        driver.wait(60)
    driver_notes = notes(home)
    totals, reader = read(home, epoch_rows)
    expected = {"rows": keys, "n": sent_count, "ids": sent_count * (sent_count - 1) // 2}
    if {name: totals[name] for name in expected} != expected:
        msg = f"expected {expected}, the reader found {totals}"
        raise AssertionError(msg)
    epochs_spans, folds = spans(driver_notes, "epochs"), spans(driver_notes, "fold")
    large, small = epochs_spans[:epochs], epochs_spans[epochs:]
    during_folds = [end - begin for begin, end in small if any(begin < last and end > first for first, last in folds)]
    between_folds = [
        end - begin for begin, end in small if not any(begin < last and end > first for first, last in folds)
    ]
    return {
        "epoch_seconds": [round(end - begin, 2) for begin, end in large],
        "fold_seconds": [round(end - begin, 2) for begin, end in folds],
        "small_epochs": {"beside a fold": of_small(during_folds), "between folds": of_small(between_folds)},
        "reader_seconds": round(totals["seconds"], 2),
        "driver_mib": {
            "while epochs overflow": peaks.peak(lambda at: large[0][0] <= at <= large[-1][1]),
            "while they are folded": peaks.peak(lambda at: any(a <= at <= b for a, b in folds)),
            "all the time": peaks.peak(),
        },
        "reader_mib": reader,
        "checked": {"keys": keys, "records": sent_count},
    }


def of_small(seconds: list[float]) -> dict[str, float]:
    """Summarize the seconds of small epochs: number, median and maximum."""
    if not seconds:
        return {"epochs": 0}
    return {
        "epochs": len(seconds),
        "median": round(statistics.median(seconds), 2),
        "longest": round(max(seconds), 2),
    }


def has_read_all(home: Path, sent_count: int) -> bool:
    """Check in the log of the driver that its epochs have all records."""
    lines = (home / "driver.log").read_text(encoding="utf-8").splitlines()
    return sum(int(json.loads(line)["records"]) for line in lines if '"epoch_committed"' in line) >= sent_count


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--epoch-rows", type=int, default=1_000_000)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--bootstrap", help="address of a running broker; default: start one")
    parser.add_argument("--filled", action="store_true", help="the topic was filled by fill.py")
    parser.add_argument("--out", type=Path, default=Path("docs/scale/many-keys.json"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, broker(Path(folder), args.bootstrap) as at:
        if not args.filled:
            fill(settings_of(Path(folder), at, 1), args.keys, args.passes)
        figures = measure(Path(folder), at, args.keys, args.epoch_rows, args.passes)
    parameters = {"keys": args.keys, "partial_rows_an_epoch": args.epoch_rows, "passes": args.passes}
    result = {"asked": parameters, "goal_mib": GOAL_BYTES // 2**20, **figures, "machine": machine.describe()}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    page.write(args.out.parent)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
