"""The command `cutover demo`."""

from typing import Annotated

import typer

from cutover.infra.demo import demonstration
from cutover.settings import load_settings


def run_demo(
    pipeline: Annotated[
        str, typer.Option(help=f"Which sample: {' or '.join(demonstration.SHOWS)}.")
    ] = demonstration.PIPELINE,
    cutover: Annotated[bool, typer.Option("--cutover", help="The second act: batch goes, and comes back.")] = False,
    parts: Annotated[int, typer.Option(help="Show the year in this many stretches, each with its own report.")] = 1,
) -> int:
    """Show it all: a year of departures through broker, stream, batch and reconciler, scheduled by Airflow.

    Or ads in videos: impressions and clicks of two topics joined by session, and a budget looked up.

    With `--cutover`: evidence, a person's approval, SHADOW, KAPPA, a planted defect, the audit that finds it, the way
    back; in a home of its own (`make demo-cutover`).

    Leaves everything up. Exit code: that of the verdict (0 agree or within policy, 1 differ, 2 not comparable).
    """
    if cutover:
        from cutover.infra.demo import retirement

        return retirement.main(load_settings())
    return demonstration.main(load_settings(), pipeline=pipeline, count=parts)


COMMANDS = {"demo": run_demo}
