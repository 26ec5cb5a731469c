"""Command `cutover cluster`: a Spark cluster on this machine that ends with the command."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Annotated

import typer

from cutover.infra import cluster
from cutover.output.console import Output, Verbatim
from cutover.settings import load_settings


def run(
    *,
    workers: Annotated[int, typer.Option(min=1, help="Number of workers.")] = 2,
    cores: Annotated[int, typer.Option(min=1, help="Cores per worker.")] = 1,
    memory: Annotated[str, typer.Option(help="Memory per worker, in Spark's notation.")] = "1500m",
) -> Iterator[Output]:
    """Run a Spark master and workers on loopback until Ctrl-C."""
    folder = load_settings().home.resolve() / "cluster"
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        contextlib.suppress(KeyboardInterrupt),
        cluster.running(folder, workers=workers, cores=cores, memory=memory) as running,
    ):
        yield Output(
            document={"master": running.master, "conf": dict(running.conf())},
            lines=[Verbatim(_format_cluster(running, workers, memory, str(folder)))],
        )
        while True:
            signal.pause()


def _format_cluster(running: cluster.Cluster, workers: int, memory: str, folder: str) -> str:
    conf = "\n".join(f'"{key}" = "{value}"' for key, value in running.conf().items())
    return (
        f"Spark cluster of {workers} workers ({running.cores} core, {memory} each): {running.master}\n"
        f"Logs in {folder}; Ctrl-C stops it. In cutover.toml:\n"
        f'[spark]\nmaster = "{running.master}"\n\n[spark.conf]\n{conf}\n'
    )


COMMANDS = {"cluster": run}
