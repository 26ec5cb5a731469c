"""docs/scale.md, written from docs/scale/*.json alone."""

import json
from pathlib import Path
from typing import Any

HEAD = """# Many keys, and one large key

Written by `make many-keys` and `make skew` from [scale/](scale/)`*.json`; change nothing here.
"""


def write(folder: Path) -> None:
    """Write the page of what is there into the folder above."""
    parts = [HEAD]
    for name, section in (("many-keys", many_keys), ("skew", skew)):
        file = folder / f"{name}.json"
        if file.is_file():
            parts.append(section(json.loads(file.read_text(encoding="utf-8"))))
    (folder.parent / f"{folder.name}.md").write_text("\n".join(parts), encoding="utf-8")


def many_keys(found: dict[str, Any]) -> str:
    """Return the section on many keys."""
    asked, epochs, folds = found["asked"], found["epoch_seconds"], found["fold_seconds"]
    rows = "\n".join(_memory(when, peak) for when, peak in found["driver_mib"].items())
    return f"""## {asked["keys"]:,} keys in open windows

The real driver (`spark.driver_memory` 1g, local[2]) reads {asked["keys"] * asked["passes"]:,} records in epochs of
{asked["partial_rows_an_epoch"]:,} records with as many keys: Spark writes each epoch's partial rows into files, the
driver lists them. Then a fold merges them in its background thread, in 512 MB and on disk beyond that. Peaks are
sampled from outside five times a second, in MiB of RSS (PSS in brackets); the goal is {found["goal_mib"]:,} for both
processes together.

| | Python | its JVM | both |
|---|---|---|---|
{rows}

An epoch took {min(epochs):g} to {max(epochs):g} s, the first with the JVM's warming up; the folds
{", ".join(f"{fold:g}" for fold in folds)} s. A reader in a process of its own folds everything in
{found["reader_seconds"]:g} s and takes {found["reader_mib"]:,} MiB at most; its {found["checked"]["keys"]:,} rows add
up to the {found["checked"]["records"]:,} records that were sent (the small epochs after the large ones included).
{_beside(found.get("small_epochs", {}))}
{_machine(found)}
"""


def _beside(small: dict[str, dict[str, float]]) -> str:
    """Return what a fold of millions of rows does to the small epochs beside it."""
    said = [
        f"{each['epochs']:g} small epochs {when} took {each['median']:g} s (median), {each['longest']:g} s at most"
        for when, each in small.items()
        if each["epochs"]
    ]
    return f"\n{'; '.join(said)}.\n" if said else ""


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

An epoch of {asked["records"]:,} records from parsing to its commit, by how their keys are spread: {asked["rounds"]}
rounds, every spread once a round, the first round dropped, ratios within a round. Partial rows are built before
anything is sent to another task, so a large key makes one row a window and task, however many records it has; the goal
is {found["goal"]:g} times the even spread at most.

| | partial rows | time / even spread ({rows["even"]:,} partial rows): median (lowest to highest) |
|---|---|---|
{ratios}

{_machine(found)}
"""


TITLES = {"skewed": "one key has 90 %", "tenfold": "ten times the keys"}


def _machine(found: dict[str, Any]) -> str:
    return "Machine: " + ", ".join(f"{name} {value}" for name, value in found["machine"].items()) + "."
