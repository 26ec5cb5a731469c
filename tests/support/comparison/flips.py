"""The bit-flip campaign: seeded bits are flipped in every file of a lake, one at a time, and both sides compared again.

`python -m tests.support.comparison.flips --flips 200 --seed 7`. A flip in a data file must end as NOT_COMPARABLE with
the file's name; one in a table's log, which holds much that is never read, as NOT_COMPARABLE with the table's name or
with the same result as before. Half of the flips in a JSON entry hit what lists files: names of actions, paths, sizes,
partition values.
Never another verdict, never an error that is not ours, never rows or another writer blamed for a damaged log.
"""

import argparse
import json
import random
import re
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from deltalake import DeltaTable

from cutover.errors import CutoverError
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.settings import KafkaSettings, Settings
from tests.integration.reconcile.lake_of import PIPELINE, START, Sale, lake_of, reconcile, write
from tests.support.history.journal_rows import record_stage

_LISTS = re.compile(rb'"(?:add|remove|txn)"|"path":"[^"]*"|"partitionValues":[{][^}]*[}]|"size":[0-9]+')
"""What a JSON entry of a table's log lists files by."""

SALES = [
    *(Sale(epoch=e, hour=h, shop=shop, amount=10 * h + e) for e in range(3) for h in range(4) for shop in ("a", "b")),
    Sale(epoch=2, hour=1, amount=7, kind="late"),
]


def make_lake(home: Path) -> Settings:
    """Write a lake with both sides of some sales."""
    settings = Settings(home=home, kafka=KafkaSettings(bootstrap_servers="127.0.0.1:1", timeout_seconds=0.05))
    lake = lake_of(SALES)
    write(settings, lake)
    record_stage(PipelineLake(settings, PIPELINE), "LAMBDA", event="rolled_back", at=START)
    return settings


def list_files_by_kind(lake: Path) -> dict[str, list[Path]]:
    """Group the files of a lake by kind: `stream/partial`, `batch`, `_delta_log of batch`, ..."""
    files_by_kind: dict[str, list[Path]] = {}
    for file in sorted(lake.rglob("*")):
        if not file.is_file() or file.name in {"newest.json", "_last_checkpoint"} or "sequences" in file.parts:
            continue  # sequence marks are empty
        table = next(parent for parent in file.parents if (parent / "_delta_log").is_dir())
        in_log = "_delta_log" in file.parts
        part = "" if in_log or file.parent == table else "/" + file.parent.name.removeprefix("_kind=")
        files_by_kind.setdefault(
            f"_delta_log of {table.name} ({file.suffix})" if in_log else table.name + part, []
        ).append(file)
    return files_by_kind


def flips(file: Path, number: int, rng: random.Random) -> Iterator[int]:
    """Flip one bit at a time; the file has its original content again after the last one."""
    content = file.read_bytes()
    listing = [place for match in _LISTS.finditer(content) for place in range(*match.span())]
    try:
        for _ in range(number):
            places = listing if file.suffix == ".json" and listing and rng.random() < 0.5 else range(len(content))
            place, bit = rng.choice(places), rng.randrange(8)
            file.write_bytes(content[:place] + bytes([content[place] ^ (1 << bit)]) + content[place + 1 :])
            yield place
    finally:
        file.write_bytes(content)


def data_findings(report: Report) -> tuple[object, ...]:
    """Return the parts of a comparison's finding that concern the data."""
    return report.finding.verdict, report.finding.windows, report.finding.rows, report.finding.causes


def count_outcomes(
    settings: Settings, files: Sequence[Path], number: int, seed: int, right: tuple[object, ...]
) -> Counter[str]:
    """Flip `number` bits in files of one kind; count the outcomes, wrong ones with their place.

    Each comparison adds to the history, which is compacted meanwhile, so some of its files may be gone.
    """
    rng, outcomes = random.Random(seed), Counter[str]()  # noqa: S311 -- no secret
    for turn in range(number):
        existing = [file for file in files if file.exists()]
        if not existing:
            break
        file = existing[turn % len(existing)]
        for place in flips(file, 1, rng):
            outcomes[_outcome(settings, file, place, right)] += 1
    return outcomes


def _outcome(settings: Settings, file: Path, place: int, right: tuple[object, ...]) -> str:
    at = f"{file.parent.name}/{file.name}, byte {place}"
    try:
        report = reconcile(PipelineLake(settings, PIPELINE))
    except CutoverError:
        return "refused"
    except Exception as error:  # noqa: BLE001 -- the campaign searches for these
        return f"WRONG: {at}: {error!r}"[:300]
    if report.finding.verdict is Verdict.NOT_COMPARABLE and report.finding.exit_code == 2:
        breaches = report.finding.seal.breaches
        if file.parent.name == "_delta_log":
            is_named = any(str(file.parent.parent) in breach.message for breach in breaches)
            is_blaming = any(breach.runbook == "ForeignWrite" for breach in breaches)
            wrong = f"WRONG: {at}: {report.finding.sentence}"[:300]
            return wrong if is_blaming else "named" if is_named else "not comparable"
        is_named = any(breach.file and file.name in breach.file for breach in breaches)
        return "named" if is_named else "not comparable"
    return "same result" if data_findings(report) == right else f"WRONG: {at}: {report.finding.sentence}"


def campaign(
    home: Path, number: int, seed: int, is_selected: Callable[[str], bool] = lambda _: True
) -> Iterator[tuple[str, Counter[str]]]:
    """Flip `number` bits in files of each selected kind; yield each kind with its counts by outcome."""
    settings = make_lake(home)
    lake, right = Path(settings.lake_uri), data_findings(reconcile(PipelineLake(settings, PIPELINE)))
    entries = list_files_by_kind(lake)
    for kind in filter(is_selected, entries):
        yield kind, count_outcomes(settings, list_files_by_kind(lake).get(kind, []), number, seed, right)
    DeltaTable(str(next(lake.rglob("stream/_delta_log")).parent)).create_checkpoint()  # entries are not read behind it
    checkpoints = {kind: files for kind, files in list_files_by_kind(lake).items() if kind not in entries}
    for kind in filter(is_selected, checkpoints):
        yield kind, count_outcomes(settings, checkpoints[kind], number, seed, right)


def main() -> int:
    """Run the campaign and print a line for each kind; 1 if any outcome was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", action="append", help="A kind of file, such as `batch`; all if it is left out.")
    parser.add_argument("--part", default="1/1", help="A part of the kinds, such as `3/10`.")
    args = parser.parse_args()
    number, _, count = args.part.partition("/")

    def is_selected(kind: str) -> bool:
        is_in_part = zlib.crc32(kind.encode()) % int(count) == int(number) - 1
        return is_in_part and (args.only is None or kind in args.only)

    code = 0
    with tempfile.TemporaryDirectory() as home:
        for kind, outcomes in campaign(Path(home), args.flips, args.seed, is_selected):
            sys.stdout.write(json.dumps({"kind": kind, **outcomes}) + "\n")
            sys.stdout.flush()
            code = max(code, int(any(text.startswith("WRONG") for text in outcomes)))
    return code


if __name__ == "__main__":
    sys.exit(main())
