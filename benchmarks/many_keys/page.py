"""Second half of docs/soak.md: many keys and one large key, generated from docs/scale/*.json."""

import json
from pathlib import Path
from typing import Any

BEGIN = "<!-- keys: written by `make many-keys` and `make skew` from scale/*.json -->\n"


def write(folder: Path) -> None:
    """Replace the generated part of `soak.md` in the parent of the results folder."""
    page = folder.parent / "soak.md"
    head = page.read_text(encoding="utf-8").partition(BEGIN)[0] if page.is_file() else ""
    page.write_text(head + render(folder), encoding="utf-8")


def render(folder: Path) -> str:
    """Render all results of a folder."""
    parts = [BEGIN]
    for name, section in (("many-keys", many_keys), ("skew", skew)):
        file = folder / f"{name}.json"
        if file.is_file():
            parts.append(section(json.loads(file.read_text(encoding="utf-8"))))
    return "\n".join(parts)


def many_keys(result: dict[str, Any]) -> str:
    """Render the section on many keys."""
    sizes, epochs, folds = result["asked"], result["epoch_seconds"], result["fold_seconds"]
    rows = "\n".join(_memory(period, peak) for period, peak in result["driver_mib"].items())
    return f"""## {sizes["keys"]:,} keys in open windows

The real driver (`spark.driver_memory` 1g, local[2]) reads {sizes["keys"] * sizes["passes"]:,} records in epochs of
{sizes["partial_rows_an_epoch"]:,} records with as many keys: Spark writes each epoch's partial rows into files, and the
driver lists them. Then a fold in the driver's background thread merges them, with 512 MB of memory and spilling to disk
beyond that. Peaks are sampled by another process five times a second, in MiB of RSS (PSS in brackets); the goal is
{result["goal_mib"]:,} for both processes together.

| | Python | its JVM | both |
|---|---|---|---|
{rows}

An epoch took {min(epochs):g} to {max(epochs):g} s, the first one including the warm-up of the JVM; the folds took
{", ".join(f"{fold:g}" for fold in folds)} s. A reader in a separate process folds everything in
{result["reader_seconds"]:g} s with at most {result["reader_mib"]:,} MiB; its {result["checked"]["keys"]:,} rows add
up to the {result["checked"]["records"]:,} records that were sent (including the small epochs after the large ones).
{_small_epochs(result.get("small_epochs", {}))}
{_machine(result)}
"""


def _small_epochs(small: dict[str, dict[str, float]]) -> str:
    """Describe the times of small epochs during and between folds of millions of rows."""
    sentences = [
        f"{times['epochs']:g} small epochs {period} took {times['median']:g} s (median), {times['longest']:g} s at most"
        for period, times in small.items()
        if times["epochs"]
    ]
    return f"\n{'; '.join(sentences)}.\n" if sentences else ""


def _memory(period: str, peak: dict[str, int]) -> str:
    cells = (f"{peak[name]:,} ({peak[f'{name}_pss']:,})" for name in ("python", "jvm", "both"))
    return f"| {period} | {' | '.join(cells)} |"


def skew(result: dict[str, Any]) -> str:
    """Render the section on skew."""
    sizes, rows = result["asked"], result["partial_rows"]
    ratios = "\n".join(
        f"| {TITLES[name]} | {rows[name]:,} | {r['median']:g} ({r['lowest']:g} to {r['highest']:g}) |"
        for name, r in sorted(result["ratio_to_even"].items())
    )
    return f"""## One key with nine of ten records

Time of an epoch of {sizes["records"]:,} records from parsing to its commit, for different distributions of keys.
Each of the {sizes["rounds"]} rounds runs every distribution once; the first round is dropped, and ratios are computed
within a round. Partial rows are built before anything is sent to another task, so a large key adds one row per window
and task, regardless of its number of records. The goal is at most {result["goal"]:g} times the time of evenly
distributed keys.

| | partial rows | time / time of even keys ({rows["even"]:,} partial rows): median (lowest to highest) |
|---|---|---|
{ratios}

{_machine(result)}
"""


TITLES = {"skewed": "one key has 90 %", "tenfold": "ten times the keys"}


def _machine(result: dict[str, Any]) -> str:
    return "Machine: " + ", ".join(f"{name} {value}" for name, value in result["machine"].items()) + "."
