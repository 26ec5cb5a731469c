"""Break lines of the kernel, one at a time, and say which tests notice: `make mutations SEED=7 LINES=25`.

Works in two copies of what is committed, a line in each. All tests run once, to see which of them run which line; that
is kept until a line of the kernel changes. Then each line that is drawn is broken, and the test files that run it are
tried, the quickest first, until a test fails; where none does, all tests are. A line that none notices is named.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutations.changes import Mutation, draw
from tests.mutations.copies import ALL, copy_repository, try_mutation
from tests.mutations.runners import Runners, find_runners, list_importers


def plan_steps(mutation: Mutation, runners: Runners, root: Path) -> list[list[str]]:
    """Return what to try for a line: unit tests that import its module, all files that run it in growing steps, all."""
    near = list_importers(mutation.file, root)
    return [*([near] if near else []), *runners.plan(mutation.file, mutation.line), [*ALL, "-n2"]]


def find_unnoticed(copies: Sequence[Path], mutations: Sequence[Mutation], runners: Runners) -> list[Mutation]:
    """Try as many mutations at once as there are copies; return those that no test notices, and print each."""
    free: SimpleQueue[Path] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def attempt(mutation: Mutation) -> bool:
        copy, began = free.get(), time.monotonic()
        try:
            noticed = try_mutation(copy, mutation, plan_steps(mutation, runners, copy))
        finally:
            free.put(copy)
        _print_line(f"{mutation}\n    {noticed or 'NOT NOTICED'} ({time.monotonic() - began:.0f} s)")
        return noticed is not None

    with ThreadPoolExecutor(len(copies)) as pool:
        noticed = list(pool.map(attempt, mutations))
    return [mutation for mutation, is_noticed in zip(mutations, noticed, strict=True) if not is_noticed]


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(words: Sequence[str] | None = None) -> int:
    """Draw, break, test, and print a line for each; exit code 1 where more than `--unnoticed` stay unnoticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--lines", type=int, default=25)
    parser.add_argument("--unnoticed", type=int, default=1, help="how many may stay unnoticed")
    args = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="cutover-mutations-") as place:
        copies = [copy_repository(Path(place, name)) for name in ("one", "other")]
        runners = find_runners(copies[0])
        unnoticed = find_unnoticed(copies, draw(args.seed, args.lines, copies[0]), runners)
    _print_line(f"{args.lines - len(unnoticed)} of {args.lines} noticed, seed {args.seed}")
    return int(len(unnoticed) > args.unnoticed)


if __name__ == "__main__":
    sys.exit(main())
