"""Metrics of a driver: sums over its epochs, served over HTTP on loopback."""

import json
import socket
import threading
from dataclasses import replace
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from cutover.settings import MetricsSettings, Settings
from cutover.streaming.process.driver_metrics import (
    BOUNDS,
    DriverCollector,
    DriverMetrics,
    TimeSpread,
    serve_metrics,
    target_path,
)
from tests.support.history.watch_facts import MICROS, make_epoch

Key = tuple[str, str]


def numbers(text: str) -> dict[Key, float]:
    """Parse metrics into values by name and label (partition, class, bound)."""
    values: dict[Key, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.labels.pop("pipeline") == "clicks"
            values[sample.name, "".join(sample.labels.values())] = sample.value
    return values


def read_values(metrics: DriverMetrics) -> dict[Key, float]:
    registry = CollectorRegistry()
    registry.register(DriverCollector(metrics, "clicks"))
    return numbers(generate_latest(registry).decode())


def make_fed_metrics() -> DriverMetrics:
    metrics = DriverMetrics()
    epoch = make_epoch(7, counts={"accepted": 90, "late": 10}, records=95, conflicts=2, seconds=0.3)
    metrics.note_epoch(epoch, commit_seconds=0.02, written_bytes=1_000)
    tick = replace(make_epoch(8, counts={}, records=0), tick=True)
    metrics.note_epoch(tick, commit_seconds=0.2, written_bytes=1_500)
    metrics.note_look("BACKPRESSURED", {0: 70, 1: 50}, {0: 50, 1: 50})
    return metrics


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (("cutover_stream_epochs_total", ""), 2),
        (("cutover_stream_ticks_total", ""), 1),
        (("cutover_stream_read_records_total", ""), 95),
        (("cutover_stream_records_total", "accepted"), 90),
        (("cutover_stream_records_total", "late"), 10),
        (("cutover_stream_records_total", "malformed"), 0),
        (("cutover_stream_commit_conflicts_total", ""), 2),
        (("cutover_stream_written_bytes_total", ""), 1_500),
        (("cutover_stream_read_seconds_sum", ""), 0.3),
        (("cutover_stream_read_seconds_count", ""), 1),
        (("cutover_stream_commit_seconds_bucket", "0.025"), 1),
        (("cutover_stream_commit_seconds_bucket", "0.25"), 2),
        (("cutover_stream_commit_seconds_bucket", "+Inf"), 2),
        (("cutover_stream_epoch", ""), 8),
        (("cutover_stream_watermark_lag_seconds", ""), 60),
        (("cutover_stream_watermark_timestamp_seconds", ""), MICROS / 1e6 - 60),
        (("cutover_stream_unread_offsets", "0"), 20),
        (("cutover_stream_unread_offsets", "1"), 0),
        (("cutover_stream_backpressured", ""), 1),
    ],
)
def test_metrics_sum_two_epochs_and_a_tick(key: Key, value: float) -> None:
    assert read_values(make_fed_metrics())[key] == pytest.approx(value)


def test_resumed_driver_counts_from_zero() -> None:
    metrics = DriverMetrics()
    metrics.note_start(make_epoch(41))
    values = read_values(metrics)

    assert (values["cutover_stream_epoch", ""], values["cutover_stream_epochs_total", ""]) == (41, 0)


def test_unknown_values_are_not_published() -> None:
    values = read_values(DriverMetrics())

    assert ("cutover_stream_epoch", "") not in values
    assert ("cutover_stream_watermark_timestamp_seconds", "") not in values


@pytest.mark.parametrize("seconds", [0.0, *BOUNDS, 1e9])
def test_a_duration_is_in_every_bucket_from_its_bound(seconds: float) -> None:
    buckets = {s.labels[1]: s.value for s in TimeSpread().add(seconds).samples("f", "p") if s.family == "f_bucket"}

    assert buckets.pop("+Inf") == 1
    assert buckets == {str(limit): float(seconds <= limit) for limit in BOUNDS}


def with_port(settings: Settings, port: int | None) -> Settings:
    return settings.model_copy(update={"metrics": MetricsSettings(port=port)})


def test_driver_is_served_on_loopback_and_publishes_its_address(settings: Settings) -> None:
    with_metrics = with_port(settings, 0)
    with serve_metrics(with_metrics, "clicks", make_fed_metrics()) as port:
        (target,) = json.loads(target_path(with_metrics, "clicks").read_text(encoding="utf-8"))
        assert target == {"targets": [f"127.0.0.1:{port}"], "labels": {"driver": "clicks"}}
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert numbers(answer.read().decode())["cutover_stream_epoch", ""] == 8

    assert not target_path(with_metrics, "clicks").exists()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(port or 0)), timeout=5)


def test_nothing_listens_unless_configured(settings: Settings) -> None:
    with serve_metrics(settings, "clicks", make_fed_metrics()) as port:
        assert port is None

    assert not settings.metrics_dir.exists()


def test_occupied_port_is_one_warning(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        with_metrics = with_port(settings, other.getsockname()[1])
        with serve_metrics(with_metrics, "clicks", make_fed_metrics()) as port:
            assert port is None

    output = capsys.readouterr()
    assert (output.out + output.err).count("metrics_not_served") == 1
    assert not target_path(with_metrics, "clicks").exists()


def test_unwritable_folder_does_not_stop_the_server(settings: Settings) -> None:
    settings.home.mkdir(parents=True, exist_ok=True)
    (settings.home / "metrics").write_text("a file where the folder should be")

    with serve_metrics(with_port(settings, 0), "clicks", make_fed_metrics()) as port:
        assert port


def test_client_that_never_completes_its_request_blocks_nothing(settings: Settings) -> None:
    metrics, finished = make_fed_metrics(), threading.Event()

    def epochs() -> None:
        for number in range(9, 1_009):
            metrics.note_epoch(make_epoch(number), commit_seconds=0.01, written_bytes=0)
        finished.set()

    with serve_metrics(with_port(settings, 0), "clicks", metrics) as port:
        silent = socket.create_connection(("127.0.0.1", int(port or 0)))
        silent.sendall(b"GET /metrics HTTP/1.1\r\n")
        threading.Thread(target=epochs, daemon=True).start()
        assert finished.wait(30)
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert numbers(answer.read().decode())["cutover_stream_epoch", ""] == 1_008
    silent.close()
