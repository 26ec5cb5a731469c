"""Many keys: what the driver takes while epochs overflow and while they are folded.

    .venv/bin/python -m benchmarks.many_keys --keys 5000000 --epoch-rows 1000000 --passes 1

Writes each key `--passes` times into a topic, lets the real driver read it in epochs of `--epoch-rows` records (each of
another key, so as many partial rows), then sends small epochs until the large ones are folded. From outside, both
processes are sampled: Python and its JVM. At the end a reader folds everything in a process of its own, and its sums
are compared with what was sent. JSON to `--out`.
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
from benchmarks.many_keys.fill import PARTITIONS, fill, put
from benchmarks.shown import machine
from benchmarks.soak.processes import broker, child
from cutover.infra.processes.memory import proportional_set_size

PHASES = {"epochs": ("epoch.planned", "epoch.committed"), "fold": ("compact.read", "compact.committed")}
GOAL_BYTES = 3 * 2**30
PATIENCE = 600.0  # seconds for an epoch, or for all folds


class Peaks:
    """Samples a process and its JVM in a thread."""

    def __init__(self, process: psutil.Process, seconds: float = 0.2) -> None:
        self.samples: list[dict[str, float]] = []
        self._process, self._seconds, self._stop = process, seconds, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextmanager
    def watching(self) -> Iterator["Peaks"]:
        """Sample while the block runs."""
        self._thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            self._thread.join(10)

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            try:
                java = [each for each in self._process.children(recursive=True) if each.name() == "java"]
                found = {"python": self._process.memory_info().rss, "jvm": sum(j.memory_info().rss for j in java)}
                shared = {
                    "python_pss": proportional_set_size(self._process.pid),
                    "jvm_pss": sum(proportional_set_size(j.pid) for j in java),
                }
            except psutil.Error:
                continue
            self.samples.append({"at": time.time(), **found, **shared})

    def peak(self, within: Callable[[float], bool] = lambda _: True) -> dict[str, int]:
        """Return the highest sample of each process, and of both at one time, in MiB; RSS, and PSS where so named."""
        chosen = [s for s in self.samples if within(s["at"])] or [dict.fromkeys(self.samples[0], 0)]
        sums = [
            {**s, "both": s["python"] + s["jvm"], "both_pss": s["python_pss"] + s["jvm_pss"]}
            for s in chosen
        ]  # fmt: skip
        names = ("python", "jvm", "both", "python_pss", "jvm_pss", "both_pss")
        return {name: round(max(s[name] for s in sums) / 2**20) for name in names}


def notes(home: Path) -> list[dict[str, float | str]]:
    """Return what the driver has noted so far."""
    file = home / "notes.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return [json.loads(line) for line in lines]


def reached(home: Path, point: str, epoch: int) -> bool:
    """Return whether the driver was at a point of an epoch or of a later one."""
    return any(n["point"] == point and int(n["of"]) >= epoch for n in notes(home))


def until(look: Callable[[], bool], process: psutil.Popen, within: float) -> None:
    """Wait for a fact.

    Raises:
        AssertionError: It does not come about, or the driver ended.
    """
    deadline = time.monotonic() + within
    while not look():
        if process.poll() is not None or time.monotonic() > deadline:
            msg = "the driver ended" if process.poll() is not None else f"nothing after {within:.0f} s"
            raise AssertionError(msg)
        time.sleep(0.2)


def trickle(bootstrap: str, home: Path, process: psutil.Popen, *, keys: int, last: int, sent: int) -> int:
    """Send small epochs until the large ones are folded; return how many records there are now."""
    producer, deadline = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1}), time.monotonic() + PATIENCE
    while not reached(home, "compact.committed", last):
        if process.poll() is not None or time.monotonic() > deadline:
            msg = f"epochs up to {last} were not folded"
            raise AssertionError(msg)
        for _ in range(PARTITIONS):
            put(producer, sent, sent % keys)
            sent += 1
        producer.flush(30)
        time.sleep(0.3)
    return sent


def spans(found: list[dict[str, float | str]], phase: str) -> list[tuple[float, float]]:
    """Return when a phase began and ended, each time."""
    first, last = PHASES[phase]
    begun: float | None = None
    pairs = []
    for note in found:
        if note["point"] == first:
            begun = float(note["at"])
        elif note["point"] == last and begun is not None:
            pairs.append((begun, float(note["at"])))
            begun = None
    return pairs


def read(home: Path, epoch_rows: int) -> tuple[dict[str, float], int]:
    """Let a reader fold everything; return what it found and the highest RSS it had, in MiB."""
    where = ["--home", str(home), "--epoch-rows", str(epoch_rows)]
    command = [sys.executable, "-m", "benchmarks.many_keys.reader", *where]
    process = psutil.Popen(command, stdout=subprocess.PIPE, text=True)
    with Peaks(process, 0.05).watching() as peaks:
        out, _ = process.communicate(timeout=PATIENCE)
    return json.loads(out), peaks.peak()["python"]


def measure(home: Path, bootstrap: str, keys: int, epoch_rows: int, passes: int) -> dict[str, object]:
    """Drive, fold, read; return all figures.

    Raises:
        AssertionError: The reader's sums are not those of what was sent.
    """
    epochs = -(-keys * passes // epoch_rows)
    arguments = ["--home", str(home), "--bootstrap", bootstrap, "--epoch-rows", str(epoch_rows)]
    arguments += ["--fold-every", str(epochs)]
    with child("benchmarks.many_keys.driver", home / "driver.log", arguments) as driver:
        with Peaks(driver).watching() as peaks:
            until(lambda: reached(home, "epoch.committed", epochs - 1), driver, PATIENCE * epochs)
            sent = trickle(bootstrap, home, driver, keys=keys, last=epochs - 1, sent=keys * passes)
            until(lambda: all_read(home, sent), driver, PATIENCE)
        driver.terminate()
        driver.wait(60)
    found = notes(home)
    seen, reader = read(home, epoch_rows)
    expected = {"rows": keys, "n": sent, "ids": sent * (sent - 1) // 2}
    if {name: seen[name] for name in expected} != expected:
        msg = f"expected {expected}, the reader found {seen}"
        raise AssertionError(msg)
    every, folds = spans(found, "epochs"), spans(found, "fold")
    large, small = every[:epochs], every[epochs:]
    beside = [end - begin for begin, end in small if any(begin < last and end > first for first, last in folds)]
    alone = [end - begin for begin, end in small if not any(begin < last and end > first for first, last in folds)]
    return {
        "epoch_seconds": [round(end - begin, 2) for begin, end in large],
        "fold_seconds": [round(end - begin, 2) for begin, end in folds],
        "small_epochs": {"beside a fold": of_small(beside), "between folds": of_small(alone)},
        "reader_seconds": round(seen["seconds"], 2),
        "driver_mib": {
            "while epochs overflow": peaks.peak(lambda at: large[0][0] <= at <= large[-1][1]),
            "while they are folded": peaks.peak(lambda at: any(a <= at <= b for a, b in folds)),
            "all the time": peaks.peak(),
        },
        "reader_mib": reader,
        "checked": {"keys": keys, "records": sent},
    }


def of_small(seconds: list[float]) -> dict[str, float]:
    """Return number, median and largest of the seconds of small epochs."""
    if not seconds:
        return {"epochs": 0}
    return {
        "epochs": len(seconds),
        "median": round(statistics.median(seconds), 2),
        "longest": round(max(seconds), 2),
    }


def all_read(home: Path, sent: int) -> bool:
    """Return whether the driver says that its epochs hold all records."""
    lines = (home / "driver.log").read_text(encoding="utf-8").splitlines()
    return sum(int(json.loads(line)["records"]) for line in lines if '"epoch_committed"' in line) >= sent


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--epoch-rows", type=int, default=1_000_000)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--bootstrap", help="a broker that runs; none: one of its own")
    parser.add_argument("--filled", action="store_true", help="the broker has the records: see fill.py")
    parser.add_argument("--out", type=Path, default=Path("docs/scale/many-keys.json"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, broker(Path(folder), args.bootstrap) as at:
        if not args.filled:
            fill(settings_of(Path(folder), at, 1), args.keys, args.passes)
        figures = measure(Path(folder), at, args.keys, args.epoch_rows, args.passes)
    asked = {"keys": args.keys, "partial_rows_an_epoch": args.epoch_rows, "passes": args.passes}
    result = {"asked": asked, "goal_mib": GOAL_BYTES // 2**20, **figures, "machine": machine.describe()}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    page.write(args.out.parent)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
