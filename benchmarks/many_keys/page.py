"""Second half of docs/soak.md: many keys and one large key, written from docs/scale/*.json."""

import json
from pathlib import Path
from typing import Any

BEGIN = "<!-- keys: written by `make many-keys` and `make skew` from scale/*.json -->\n"


def write(folder: Path) -> None:
    """Replace the part of `soak.md`, in the folder above, that shows the results in a folder."""
    page = folder.parent / "soak.md"
    head = page.read_text(encoding="utf-8").partition(BEGIN)[0] if page.is_file() else ""
    page.write_text(head + render(folder), encoding="utf-8")


def render(folder: Path) -> str:
    """Render the results that are in a folder."""
    parts = [BEGIN]
    for name, section in (("many-keys", many_keys), ("skew", skew)):
        file = folder / f"{name}.json"
        if file.is_file():
            parts.append(section(json.loads(file.read_text(encoding="utf-8"))))
    return "\n".join(parts)


def many_keys(found: dict[str, Any]) -> str:
    """Return the section on many keys."""
    asked, epochs, folds = found["asked"], found["epoch_seconds"], found["fold_seconds"]
    rows = "\n".join(_memory(when, peak) for when, peak in found["driver_mib"].items())
    return f"""## {asked["keys"]:,} keys in open windows

The real driver (`spark.driver_memory` 1g, local[2]) reads {asked["keys"] * asked["passes"]:,} records in epochs of
{asked["partial_rows_an_epoch"]:,} records with as many keys: Spark writes each epoch's partial rows into files, and the
driver lists them. Then a fold in the driver's background thread merges them, with 512 MB of memory and spilling to disk
beyond that. Peaks are sampled by another process five times a second, in MiB of RSS (PSS in brackets); the goal is
{found["goal_mib"]:,} for both processes together.

| | Python | its JVM | both |
|---|---|---|---|
{rows}

An epoch took {min(epochs):g} to {max(epochs):g} s, the first one including the warm-up of the JVM; the folds took
{", ".join(f"{fold:g}" for fold in folds)} s. A reader in a separate process folds everything in
{found["reader_seconds"]:g} s with at most {found["reader_mib"]:,} MiB; its {found["checked"]["keys"]:,} rows add
up to the {found["checked"]["records"]:,} records that were sent (including the small epochs after the large ones).
{_small_epochs(found.get("small_epochs", {}))}
{_machine(found)}
"""


def _small_epochs(small: dict[str, dict[str, float]]) -> str:
    """Describe how long the small epochs took while a fold of millions of rows ran."""
    sentences = [
        f"{each['epochs']:g} small epochs {when} took {each['median']:g} s (median), {each['longest']:g} s at most"
        for when, each in small.items()
        if each["epochs"]
    ]
    return f"\n{'; '.join(sentences)}.\n" if sentences else ""


def _memory(when: str, peak: dict[str, int]) -> str:
    cells = (f"{peak[name]:,} ({peak[f'{name}_pss']:,})" for name in ("python", "jvm", "both"))
    return f"| {when} | {' | '.join(cells)} |"


def skew(found: dict[str, Any]) -> str:
    """Return the section on skew."""
    asked, rows = found["asked"], found["partial_rows"]
    ratios = "\n".join(
        f"| {TITLES[name]} | {rows[name]:,} | {r['median']:g} ({r['lowest']:g} to {r['highest']:g}) |"
        for name, r in sorted(found["ratio_to_even"].items())
    )
    return f"""## One key with nine of ten records

Time of an epoch of {asked["records"]:,} records from parsing to its commit, for different distributions of keys.
Each of the {asked["rounds"]} rounds runs every distribution once; the first round is dropped, and ratios are computed
within a round. Partial rows are built before anything is sent to another task, so a large key adds one row per window
and task, regardless of its number of records. The goal is at most {found["goal"]:g} times the time of evenly
distributed keys.

| | partial rows | time / time of even keys ({rows["even"]:,} partial rows): median (lowest to highest) |
|---|---|---|
{ratios}

{_machine(found)}
"""


TITLES = {"skewed": "one key has 90 %", "tenfold": "ten times the keys"}


def _machine(found: dict[str, Any]) -> str:
    return "Machine: " + ", ".join(f"{name} {value}" for name, value in found["machine"].items()) + "."
