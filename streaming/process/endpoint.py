"""A driver's metrics over HTTP, on loopback; if they cannot be served the driver logs that once and continues."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cutover import files
from cutover.events import log
from cutover.settings import Settings
from cutover.streaming.process.driver_metrics import DriverCollector, DriverMetrics
from cutover.streaming.process.heartbeat import run_folder

LOOPBACK = "127.0.0.1"


def target_path(settings: Settings, pipeline: str) -> Path:
    """Return the file that says where a driver is scraped, as Prometheus' file discovery reads it."""
    return settings.metrics_dir / "targets" / f"{run_folder(settings, pipeline).name}.json"


@contextmanager
def serve_metrics(settings: Settings, pipeline: str, metrics: DriverMetrics) -> Iterator[int | None]:
    """Serve a driver's metrics while the block runs, if the settings enable it; yields the port."""
    port = settings.metrics.port
    if port is None:
        yield None
        return
    from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415 -- only where it is enabled

    registry = CollectorRegistry()
    registry.register(DriverCollector(metrics, pipeline))
    try:
        server, thread = start_http_server(port, addr=LOOPBACK, registry=registry)
    except OSError as error:
        log.warning("metrics_not_served", pipeline=pipeline, port=port, error=error.strerror or str(error))
        yield None
        return
    target = target_path(settings, pipeline)
    try:
        _announce(target, pipeline, server.server_port)
        yield server.server_port
    finally:
        with suppress(OSError):
            target.unlink(missing_ok=True)
        server.shutdown()
        server.server_close()
        thread.join()


def _announce(target: Path, pipeline: str, port: int) -> None:
    """Say where the driver is scraped: in a file, which a killed driver leaves, so that its silence is seen."""
    targets = [{"targets": [f"{LOOPBACK}:{port}"], "labels": {"driver": target.stem}}]
    try:
        files.write_json(target, targets)
    except OSError as error:
        log.warning("metrics_not_announced", pipeline=pipeline, port=port, error=error.strerror or str(error))
