"""Command `cutover demo`."""

from typing import Annotated

import typer

from cutover.infra.demo import demonstration
from cutover.settings import load_settings


def run_demo(
    pipeline: Annotated[
        str, typer.Option(help=f"Sample: {' or '.join(demonstration.SHOWS)}.")
    ] = demonstration.PIPELINE,
    cutover: Annotated[bool, typer.Option("--cutover", help="Retire batch, and roll back to it.")] = False,
    parts: Annotated[int, typer.Option(help="Split the year into this many parts, each with a report.")] = 1,
) -> int:
    """Run a year of departures through broker, stream, batch and reconciler, scheduled by Airflow.

    Or ads in videos: impressions and clicks of two topics joined by session, with a lookup of budgets.

    With `--cutover`: evidence, approval, SHADOW, KAPPA, a planted defect, the audit that detects it, and the rollback;
    in a separate home (`make demo-cutover`).

    The installation keeps running. Exit code: that of the verdict (0 equal or within policy, 1 differ, 2 not
    comparable).
    """
    if cutover:
        from cutover.infra.demo import retirement

        return retirement.main(load_settings())
    return demonstration.main(load_settings(), pipeline=pipeline, count=parts)


COMMANDS = {"demo": run_demo}
