"""Measure figures, write docs/benchmarks/*.json, and generate docs/benchmarks.md from them."""

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
from benchmarks.results import machine, page
from benchmarks.results.figure import Figure
from benchmarks.results.goals import BY_NAME

DOCS = Path(__file__).parent.parent / "docs"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the selected figures and write the page."""
    args = _parser().parse_args(arguments)
    names = tuple(args.only.split(",")) if args.only else figures.NAMES
    if names != ("none",):
        run(names, args)
    page.write(args.into)
    print(f"written: {args.into / 'benchmarks.md'}")
    return 0


def run(names: tuple[str, ...], arguments: argparse.Namespace) -> None:
    """Measure figures in one installation; each is stored as soon as it is measured."""
    machine_facts = machine.describe()
    # A line per epoch would hide the figures; warnings and errors are still shown.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with installed(arguments.bootstrap, keep=arguments.keep) as settings:
        bench = Bench(
            settings=settings,
            scale=arguments.scale,
            rounds=arguments.rounds,
            minutes=arguments.minutes,
            into=arguments.into,
            wanted_rate=arguments.rate,
        )
        for name, measure in figures.measures(names).items():
            print(f"{name}:", flush=True)
            figure = replace(measure(bench), machine=machine_facts, command=f"make bench ONLY={name}")
            page.store(arguments.into, figure)
            _print_values(figure)
        _end_session()


def _end_session() -> None:
    active = SparkSession.getActiveSession()
    if active is not None:
        active.stop()


def _print_values(figure: Figure) -> None:
    for value in figure.values:
        goal = BY_NAME[value.goal]
        outcome = {True: "reached", False: "MISSED", None: ""}[goal.reached(value.value)]
        print(f"  {goal.text}: {value.value:g} ({value.low:g} to {value.high:g}), goal {goal.description} {outcome}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument(
        "--only", help=f"Figures, comma-separated: {', '.join(figures.NAMES)}; `none` only writes the page."
    )
    parser.add_argument("--scale", type=float, default=1.0, help="Fraction of the goals' sizes; 0.05 for a quick run.")
    parser.add_argument("--rounds", type=int, default=3, help="Measured rounds, after one warm-up round.")
    parser.add_argument("--minutes", type=float, default=5.0, help="Minutes of overload, for `overload`.")
    parser.add_argument("--rate", type=float, help="Sustained events per second, for `overload`.")
    parser.add_argument("--bootstrap", help="Address of a running broker; default: start one.")
    parser.add_argument("--keep", type=Path, help="Home that is kept, whose lakes are reused by later runs.")
    parser.add_argument("--into", type=Path, default=DOCS, help="Folder of benchmarks.md and benchmarks/.")
    return parser


if __name__ == "__main__":
    sys.exit(main())
