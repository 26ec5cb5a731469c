"""Results of the soak test: soak.json, soak.md and soak.svg, generated from its notes.

.venv/bin/python -m benchmarks.soak.publish --home HOME --asked 10000 --rate 200
"""

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.many_keys import page as keys
from benchmarks.soak import figures, picture

HEAD = """# Does anything grow?

{answer}

`make soak` writes this part from [soak.json](soak.json), `make many-keys` and `make skew` write the two sections below.
The real driver reads a real topic in many small epochs, with the default settings except for the pause between epochs,
and another process observes it. Then the Committer and the Compactor run alone over as many prepared epochs, without
Spark and without a log, so that only the cost of commits is measured.

![commit time and file counts by epoch](soak.svg)
"""

TENTHS = ("first_tenth", "middle_tenth", "last_tenth")

MEANING = """
- *commit*: from the last row of an epoch to its commit, including the check of the topic's identity; *commit alone*:
  only the call that commits.
- *upkeep*: work of the driver under its lock after a commit: finding due folds and committing a finished one.
- *commit to commit*: the longest time that a reader waits for the next epoch, including everything in between.
- A run begins with empty folders, so whether the number of files grows shows from the middle on.
- Files that no version lists stay in the folder for two hours, so that no reader loses one. The cleanup that removes
  them runs every ten minutes in parallel with the stream. Files of the Delta log are removed after ten minutes.
- A *young table* receives the same rows as the other one, every fourth epoch, and is replaced by an empty one every
  200 epochs. Other load on the machine affects both alike, so their ratio shows whether a commit gets slower with age.
- Alone, epochs follow one another some thirty times faster than in a stream. Files of the log are therefore removed
  after 40 seconds, about as many commits as a stream makes in ten minutes.
"""


def write(home: Path, path: Path, *, requested: int, rate: int, note: str) -> None:
    """Write the three files into a folder and print the summary."""
    results = figures.gather(home, requested=requested, rate=rate, note=note)
    path.mkdir(parents=True, exist_ok=True)
    (path / "soak.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (path / "soak.svg").write_text(picture.draw(results) + "\n", encoding="utf-8")
    (path / "soak.md").write_text(page(results) + "\n" + keys.render(path / "scale"), encoding="utf-8")
    print(json.dumps(results["summary"], indent=1))


def page(results: dict[str, Any]) -> str:
    """Format the page."""
    real, alone, parameters = results["summary"]["driver"], results["summary"]["alone"], results["asked"]
    lines = [
        HEAD.format(answer=_answer(real)),
        f"**{real['epochs']:,} epochs of the driver** in {real['minutes']:g} minutes"
        f" ({parameters['epochs']:,} requested, {parameters['records_a_second']:,} records a second),"
        f" {alone['epochs']:,} of the Committer alone in {alone['minutes']:g} minutes. {results['note']}".rstrip(),
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
        "Machine: " + ", ".join(f"{name} {value}" for name, value in results["machine"].items()) + ".",
    ]
    return "\n".join(lines) + "\n"


def _answer(real: dict[str, Any]) -> str:
    """Summarize the run of the driver: its last tenth, compared with the first and the middle one."""
    ratio = real["epoch_ms"]["p50_ratio"]
    memory = sum(real[name]["last_tenth"] for name in ("python_mib", "jvm_mib"))
    middle = sum(real[name]["middle_tenth"] for name in ("python_mib", "jvm_mib"))
    return (
        f"Over {real['epochs']:,} epochs the median epoch of the last tenth took {ratio:g} times as long as that of the"
        f" first tenth (its commit {real['commit_ms']['p50_ratio']:g} times), the table listed at most"
        f" {real['listed_files']['max']:,.0f} files, and both processes together used {memory / middle:.2f} times the"
        " memory of the middle of the run."
    )


def _times(name: str, figure: dict[str, Any], quantile: str) -> str:
    cells = " | ".join(f"{figure[part][quantile]:,.1f} ms" for part in TENTHS)
    return f"| {name} | {cells} | {figure[f'{quantile}_ratio']:g} |"


def _ratios(name: str, figure: dict[str, Any], quantile: str) -> str:
    first, middle, last = (figure[part][quantile] for part in TENTHS)
    return f"| {name} | {first:.2f} | {middle:.2f} | {last:.2f} | {last / first:.2f} |"


def _counts(name: str, figure: dict[str, float]) -> str:
    cells = " | ".join(f"{figure[part]:,.0f}" for part in TENTHS)
    return f"| {name} | {cells} (most {figure['max']:,.0f}) | |"


def _folds(real: dict[str, Any]) -> list[str]:
    cycles, folding, over = real["commit_to_commit_ms"], real["commit_to_commit_while_folding_ms"], real["over_2_s"]
    text = (
        f"From one commit to the next: p50 {cycles['p50']:,.0f} ms, p99 {cycles['p99']:,.0f} ms, longest"
        f" {cycles['max']:,.0f} ms. In the {folding['epochs']:,} epochs during which a fold ran or was committed: p50"
        f" {folding['p50']:,.0f} ms, p99 {folding['p99']:,.0f} ms, longest {folding['max']:,.0f} ms. Beyond 2 s:"
        f" {over['while_folding']:,} of these, {over['all']:,} of all."
    )
    return [text, ""]


def _starts(real: dict[str, Any]) -> str:
    at = " and at epoch ".join(f"{number:,}" for number in real["starts_at"])
    warming = f"the first {figures.WARMING} epochs after a start are in the picture but not in the figures"
    return f"The driver was started at epoch {at}; {warming}."


def main() -> None:
    """Write the files from the notes of a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--asked", type=int, required=True)
    parser.add_argument("--rate", type=int, required=True)
    parser.add_argument("--note", default="")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    args = parser.parse_args()
    write(args.home, args.out, requested=args.asked, rate=args.rate, note=args.note)


if __name__ == "__main__":
    main()
