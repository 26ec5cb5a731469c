"""Entry of a detached driver: `python -m cutover.streaming PIPELINE [--until forever|drain|final]`."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import get_args

from cutover import events
from cutover.definition.loading import catalogue
from cutover.errors import CutoverError
from cutover.output import terminal
from cutover.pipeline_lake import PipelineLake
from cutover.settings import load_settings
from cutover.streaming import driver


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one driver until a stop is requested and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m cutover.streaming", description=__doc__)
    parser.add_argument("pipeline")
    parser.add_argument("--until", choices=get_args(driver.Until), default="forever")
    args = parser.parse_args(arguments)
    if arguments is None:
        terminal.take_over_output(f"driver-{args.pipeline}")
    events.configure(pretty=False)
    try:
        settings = load_settings()
        return driver.run_driver(PipelineLake(settings, catalogue.get(settings, args.pipeline)), until=args.until)
    except CutoverError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


if __name__ == "__main__":
    code = main()
    if (engine_log := terminal.engine_log()) is not None:
        sys.stdout.write(f"{engine_log}\n")
    sys.stdout.flush()
    sys.stderr.flush()
    # A JVM that died leaves py4j's threads waiting for it: the exit must not wait for them.
    os._exit(code)
