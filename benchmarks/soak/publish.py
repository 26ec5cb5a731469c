"""From the soak's notes to soak.json, soak.md and soak.svg.

.venv/bin/python -m benchmarks.soak.publish --home HOME --asked 10000 --rate 200
"""

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.soak import figures, picture

HEAD = """# Soak

Whether anything grows while the stream runs. Written by `make soak` from what it measured ([soak.json](soak.json));
change nothing here. The real driver reads a real topic in many small epochs, with the defaults but for the pause
between epochs, and is watched from outside. Then the Committer and the Compactor run alone, over as many prepared
epochs: no Spark, no log, so that nothing else blurs what a commit costs.

![commit time and file counts by epoch](soak.svg)
"""

TENTHS = ("first_tenth", "middle_tenth", "last_tenth")

MEANING = """
- *commit*: from an epoch's last row to its commit, with the look at the topic's identity; *commit alone*: the one call.
- *upkeep*: what the driver does under its lock after a commit: looking for due folds, committing one that is ready.
- *commit to commit*: the longest that a reader waits for the next epoch, with everything in it.
- The first tenth of a run begins with empty folders: numbers of files are flat from the middle on, or they are not.
- The folder holds files that no version lists any more for two hours, so that no reader loses one; the sweep that
  removes them runs beside the stream every ten minutes. The log's own files go after ten minutes.
- A *young table* takes the same rows beside the other one, every fourth epoch, and is made anew every 200 epochs: what
  else the machine does blurs both alike, so that their ratio tells whether a commit gets slower with age.
- Alone, epochs follow one another some thirty times faster than by the clock of a stream: there the log's files go
  after 40 seconds, about as many commits as ten minutes of a stream have.
"""


def write(home: Path, path: Path, *, asked: int, rate: int, note: str) -> None:
    """Write the three files into a folder and print the summary."""
    found = figures.gather(home, asked=asked, rate=rate, note=note)
    path.mkdir(parents=True, exist_ok=True)
    (path / "soak.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (path / "soak.svg").write_text(picture.draw(found) + "\n", encoding="utf-8")
    (path / "soak.md").write_text(page(found), encoding="utf-8")
    print(json.dumps(found["summary"], indent=1))


def page(found: dict[str, Any]) -> str:
    """Return the page."""
    real, alone, asked = found["summary"]["driver"], found["summary"]["alone"], found["asked"]
    lines = [
        HEAD,
        f"**{real['epochs']:,} epochs of the driver** in {real['minutes']:g} minutes"
        f" ({asked['epochs']:,} asked for, {asked['records_a_second']:,} records a second),"
        f" {alone['epochs']:,} of the Committer alone in {alone['minutes']:g}. {found['note']}".rstrip(),
        "",
        "| | first tenth | middle | last tenth | last / first |",
        "|---|---|---|---|---|",
        _times("commit, p50", real["commit_ms"], "p50"),
        _times("commit, p99", real["commit_ms"], "p99"),
        _times("whole epoch, p50", real["epoch_ms"], "p50"),
        _times("whole epoch, p99", real["epoch_ms"], "p99"),
        _times("commit alone, p50", alone["commit_ms"], "p50"),
        _times("commit alone, p99", alone["commit_ms"], "p99"),
        _ratios("commit alone / commit to a young table at the same moment, p50", alone["commit_to_control"], "p50"),
        _ratios("commit alone / commit to a young table at the same moment, p99", alone["commit_to_control"], "p99"),
        _times("upkeep alone, p99", alone["upkeep_ms"], "p99"),
        _counts("files in the log's folder", real["log_files"]),
        _counts("files that the table lists", real["listed_files"]),
        _counts("files in the table's folder", real["files_in_folder"]),
        _counts("files in the log's folder, alone", alone["log_files"]),
        _counts("files that the table lists, alone", alone["listed_files"]),
        _counts("driver's Python, MiB", real["python_mib"]),
        _counts("driver's JVM, MiB", real["jvm_mib"]),
        "",
        *_folds(real),
        _starts(real),
        "",
        MEANING.strip(),
        "",
        "Machine: " + ", ".join(f"{name} {value}" for name, value in found["machine"].items()) + ".",
    ]
    return "\n".join(lines) + "\n"


def _times(name: str, figure: dict[str, Any], quantile: str) -> str:
    shown = " | ".join(f"{figure[part][quantile]:,.1f} ms" for part in TENTHS)
    return f"| {name} | {shown} | {figure[f'{quantile}_ratio']:g} |"


def _ratios(name: str, figure: dict[str, Any], quantile: str) -> str:
    first, middle, last = (figure[part][quantile] for part in TENTHS)
    return f"| {name} | {first:.2f} | {middle:.2f} | {last:.2f} | {last / first:.2f} |"


def _counts(name: str, figure: dict[str, float]) -> str:
    shown = " | ".join(f"{figure[part]:,.0f}" for part in TENTHS)
    return f"| {name} | {shown} (most {figure['max']:,.0f}) | |"


def _folds(real: dict[str, Any]) -> list[str]:
    every, folding, over = real["commit_to_commit_ms"], real["commit_to_commit_while_folding_ms"], real["over_2_s"]
    text = (
        f"From one commit to the next: p50 {every['p50']:,.0f} ms, p99 {every['p99']:,.0f} ms, longest"
        f" {every['max']:,.0f} ms. In the {folding['epochs']:,} epochs during which a fold ran or was committed: p50"
        f" {folding['p50']:,.0f} ms, p99 {folding['p99']:,.0f} ms, longest {folding['max']:,.0f} ms. Beyond 2 s:"
        f" {over['while_folding']:,} of these, {over['all']:,} of all."
    )
    return [text, ""]


def _starts(real: dict[str, Any]) -> str:
    at = " and at epoch ".join(f"{number:,}" for number in real["starts_at"])
    warming = f"the first {figures.WARMING} epochs after a start are drawn and not summed up"
    return f"The driver was started at epoch {at}; {warming}."


def main() -> None:
    """Write the files anew from the notes of a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--asked", type=int, required=True)
    parser.add_argument("--rate", type=int, required=True)
    parser.add_argument("--note", default="")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    args = parser.parse_args()
    write(args.home, args.out, asked=args.asked, rate=args.rate, note=args.note)


if __name__ == "__main__":
    main()
