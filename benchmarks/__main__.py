"""`python -m benchmarks`: measure figures, write docs/benchmarks/*.json, and the page from them."""

import argparse
import logging
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import structlog
from pyspark.sql import SparkSession

from benchmarks import figures
from benchmarks.bench import Bench
from benchmarks.place import installed
from benchmarks.shown import machine, page
from benchmarks.shown.figure import Figure
from benchmarks.shown.goals import BY_NAME

DOCS = Path(__file__).parent.parent / "docs"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the figures that were asked for."""
    args = _parser().parse_args(arguments)
    names = tuple(args.only.split(",")) if args.only else figures.NAMES
    if names != ("none",):
        run(names, args)
    page.write(args.into)
    print(f"written: {args.into / 'benchmarks.md'}")
    return 0


def run(names: tuple[str, ...], asked: argparse.Namespace) -> None:
    """Measure figures in one installation; each is written as soon as it is known."""
    described = machine.describe()
    # An epoch a line would hide the figures; what goes wrong is still said.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with installed(asked.bootstrap, keep=asked.keep) as settings:
        bench = Bench(
            settings=settings,
            scale=asked.scale,
            rounds=asked.rounds,
            minutes=asked.minutes,
            into=asked.into,
            wanted_rate=asked.rate,
        )
        for name, measure in figures.measures(names).items():
            print(f"{name}:", flush=True)
            found = replace(measure(bench), machine=described, command=f"make bench ONLY={name}")
            page.store(asked.into, found)
            _tell(found)
        _end_session()


def _end_session() -> None:
    active = SparkSession.getActiveSession()
    if active is not None:
        active.stop()


def _tell(figure: Figure) -> None:
    for value in figure.values:
        goal = BY_NAME[value.goal]
        reached = {True: "reached", False: "MISSED", None: ""}[goal.reached(value.value)]
        print(f"  {goal.text}: {value.value:g} ({value.low:g} to {value.high:g}), wanted {goal.wanted} {reached}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument(
        "--only", help=f"Figures, with commas: {', '.join(figures.NAMES)}; `none` writes the page alone."
    )
    parser.add_argument("--scale", type=float, default=1.0, help="Of the sizes that the goals name; 0.05 for a try.")
    parser.add_argument("--rounds", type=int, default=3, help="Counted rounds; one more warms up.")
    parser.add_argument("--minutes", type=float, default=5.0, help="Of overload, in `sustained`.")
    parser.add_argument("--rate", type=float, help="Events a second that are kept up, for `overload`.")
    parser.add_argument("--bootstrap", help="A broker that runs already; none: one is started.")
    parser.add_argument("--keep", type=Path, help="A home that stays: lakes that are in it are not made again.")
    parser.add_argument("--into", type=Path, default=DOCS, help="Folder of benchmarks.md and benchmarks/.")
    return parser


if __name__ == "__main__":
    sys.exit(main())
