"""Figures of the soak test, computed from its notes: by bucket of epochs, by first and last tenth, and by sample."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.results import machine

Note = dict[str, Any]
BUCKETS, SAMPLES = 100, 200
WARMING = 200  # epochs after a start that are drawn, but not part of the figures
MIB = 2**20
SIZES = ("driver_rss", "jvm_rss", "driver_pss", "jvm_pss")


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """Times of one epoch, in seconds."""

    number: int
    at: float  # time of its commit, Unix seconds
    took: float | None  # from its plan to its commit; None for a tick
    commit: float | None  # from its last row to its commit, including the check of the topic's identity
    cycle: float | None  # from the previous commit to its own, including upkeep and Spark's pause; None after a start
    folding: bool  # a fold was running, or was committed


def notes(file: Path) -> list[Note]:
    """Read the lines of a file; an incomplete last line is ignored."""
    parsed = []
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            parsed.append(json.loads(line))
        except ValueError:
            break
    return parsed


def epochs(notes: Sequence[Note]) -> list[Epoch]:
    """Compute the times of all epochs from the driver's notes."""
    at = {(note["point"], note["of"]): float(note["at"]) for note in notes}
    folds, starts = _folds(notes), [note["of"] + 1 for note in notes if note["point"] == "start.read"]
    numbers = [note["of"] for note in notes if note["point"] == "epoch.committed"]
    measured = []
    for number in numbers:
        ended = at["epoch.committed", number]
        planned, aggregated = at.get(("epoch.planned", number)), at.get(("epoch.aggregated", number))
        previous_commit = None if number in starts else at.get(("epoch.committed", number - 1))
        began = previous_commit or planned or ended
        measured.append(
            Epoch(
                number=number,
                at=ended,
                took=None if planned is None else ended - planned,
                commit=None if aggregated is None else ended - aggregated,
                cycle=None if previous_commit is None else ended - previous_commit,
                folding=any(first < ended and last > began for first, last in folds),
            )
        )
    return measured


def _folds(notes: Sequence[Note]) -> list[tuple[float, float]]:
    started_at, pairs = 0.0, []
    for note in notes:
        if note["point"] == "compact.read":
            started_at = note["at"]
        elif note["point"] == "compact.committed":
            pairs.append((started_at, float(note["at"])))
    return pairs


def quantile(values: Sequence[float], share: float) -> float:
    """Compute the quantile of values, for a share between 0 and 1."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def millis(values: Sequence[float]) -> dict[str, float]:
    """Compute p50, p99 and maximum of seconds, in milliseconds."""
    return {
        "p50": round(1000 * quantile(values, 0.5), 1),
        "p99": round(1000 * quantile(values, 0.99), 1),
        "max": round(1000 * max(values, default=0.0), 1),
    }


def tenths(values: Sequence[float]) -> dict[str, Any]:
    """Compute quantiles of the first, the middle and the last tenth, and the ratios of the last to the first."""
    cut = parts(values)
    first_tenth, last_tenth = millis(cut["first_tenth"]), millis(cut["last_tenth"])
    ratios = {
        f"{name}_ratio": round(last_tenth[name] / first_tenth[name], 2) if first_tenth[name] else None
        for name in ("p50", "p99")
    }
    return {name: millis(part) for name, part in cut.items()} | ratios


def parts(values: Sequence[Any]) -> dict[str, Sequence[Any]]:
    """Select the first, the middle and the last tenth."""
    size, middle = max(1, len(values) // 10), len(values) // 2
    cut = slice(max(0, middle - size // 2), middle - size // 2 + size)
    return {"first_tenth": values[:size], "middle_tenth": values[cut], "last_tenth": values[-size:]}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Compute the medians of the first, the middle and the last tenth of samples, and the maximum."""
    return {name: quantile(part, 0.5) for name, part in parts(values).items()} | {"max": max(values, default=0)}


def driver(home: Path) -> dict[str, Any]:
    """Compute the figures of the driver: summary, curve, samples."""
    measured = epochs(notes(home / "notes.jsonl"))
    samples = [s for s in notes(home / "samples.jsonl") if "listed" in s and s["jvm_rss"]]
    starts = [note["of"] + 1 for note in notes(home / "notes.jsonl") if note["point"] == "start.read"]
    # A JVM that has just started is slow, which does not depend on the number of epochs.
    warm = [e for e in measured if not any(start <= e.number < start + WARMING for start in starts)]
    cycles = [e.cycle for e in warm if e.cycle is not None]
    folding = [e.cycle for e in warm if e.cycle is not None and e.folding]
    summary = {
        "epochs": len(measured),
        "minutes": round(sum(e.cycle for e in measured if e.cycle is not None) / 60, 1),
        "starts_at": starts,
        "commit_ms": tenths([e.commit for e in warm if e.commit is not None]),
        "epoch_ms": tenths([e.took for e in warm if e.took is not None]),
        "commit_to_commit_ms": millis(cycles),
        "commit_to_commit_while_folding_ms": {**millis(folding), "epochs": len(folding)},
        "over_2_s": {"all": _over(cycles), "while_folding": _over(folding)},
        "log_files": spread([s["log"] for s in samples]),
        "listed_files": spread([s["listed"] for s in samples if s["listed"] is not None]),
        "files_in_folder": spread([s["data"] for s in samples]),
        "python_mib": spread([round(s["driver_rss"] / MIB) for s in samples]),
        "jvm_mib": spread([round(s["jvm_rss"] / MIB) for s in samples]),
    }
    return {"summary": summary, "curve": _curve(measured), "samples": _samples(measured, samples)}


def _over(cycles: Sequence[float], seconds: float = 2.0) -> int:
    return sum(cycle > seconds for cycle in cycles)


def _curve(epochs: Sequence[Epoch]) -> list[Note]:
    size = max(1, len(epochs) // BUCKETS)
    buckets = [epochs[place : place + size] for place in range(0, len(epochs), size)]
    return [
        {
            "epoch": bucket[0].number,
            "epochs": len(bucket),
            "commit_ms": millis([e.commit for e in bucket if e.commit is not None]),
            "epoch_ms": millis([e.took for e in bucket if e.took is not None]),
            "folding": sum(e.folding for e in bucket),
        }
        for bucket in buckets
    ]


def _samples(epochs: Sequence[Epoch], samples: Sequence[Note]) -> list[Note]:
    """Thin out the samples, and add the latest epoch of its time to each."""
    step, place, thinned = max(1, len(samples) // SAMPLES), 0, []
    for sample in samples[::step]:
        while place + 1 < len(epochs) and epochs[place + 1].at <= sample["at"]:
            place += 1
        sizes = {
            f"{name}_mib": round(sample[name] / MIB) for name in ("driver_rss", "jvm_rss", "driver_pss", "jvm_pss")
        }
        thinned.append({"epoch": epochs[place].number, **{k: sample[k] for k in ("log", "listed", "data")}, **sizes})
    return thinned


def alone(home: Path) -> dict[str, Any]:
    """Compute the figures of the Committer and the Compactor alone."""
    alone_notes = notes(home / "alone" / "commits.jsonl")
    timed = [note for note in alone_notes if "commit" in note]
    samples = [note for note in alone_notes if "sample" in note]
    size, step = max(1, len(timed) // BUCKETS), max(1, len(samples) // SAMPLES)
    curve = [
        {
            "epoch": bucket[0]["epoch"],
            "commit_ms": millis([note["commit"] for note in bucket]),
            "upkeep_ms": millis([note["step"] for note in bucket]),
            "commit_to_control": _quotients([note for note in bucket if "control" in note]),
        }
        for bucket in (timed[place : place + size] for place in range(0, len(timed), size))
    ]
    summary = {
        "epochs": len(timed),
        "minutes": round((timed[-1]["at"] - timed[0]["at"]) / 60, 1),
        "commit_ms": tenths([note["commit"] for note in timed]),
        "commit_to_control": _to_control(timed),
        "upkeep_ms": tenths([note["step"] for note in timed]),
        "log_files": spread([s["log"] for s in samples]),
        "listed_files": spread([s["listed"] for s in samples]),
        "python_mib": spread([round(s["driver"] / MIB) for s in samples]),
    }
    thinned = [{"epoch": s["sample"], "log": s["log"], "listed": s["listed"]} for s in samples[::step]]
    return {"summary": summary, "curve": curve, "samples": thinned}


def _to_control(timed: Sequence[Note]) -> dict[str, dict[str, float]]:
    """Compute the ratios of commit quantiles to those of the young table, in the first, middle and last tenth."""
    paired = [note for note in timed if "control" in note]
    return {name: _quotients(tenth) for name, tenth in parts(paired).items()}


def _quotients(notes: Sequence[Note]) -> dict[str, float]:
    if not notes:
        return {}
    both = [[note[name] for note in notes] for name in ("commit", "control")]
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    return {label: round(quantile(both[0], share) / quantile(both[1], share), 3) for label, share in shares.items()}


def gather(home: Path, *, requested: int, rate: int, note: str) -> dict[str, Any]:
    """Compute all published figures."""
    parts = {"driver": driver(home), "alone": alone(home)}
    return {
        "asked": {"epochs": requested, "records_a_second": rate},
        "note": note,
        "machine": machine.describe(),
        "summary": {name: part.pop("summary") for name, part in parts.items()},
        **parts,
    }
