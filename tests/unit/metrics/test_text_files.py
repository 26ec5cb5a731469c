"""Metric files of tasks: complete, in their folder, and never the reason why a task fails."""

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cutover import metrics
from cutover.definition.model.pipeline import Pipeline
from cutover.metrics import MetricSample
from cutover.pipeline_lake import PipelineLake
from cutover.settings import MetricsSettings, Settings
from tests.support.history.watch_facts import PIPELINE

HOSTILE = ["../x", "a/b", "", ".", "x" * 300, "a\nb", 'p"} 1\n', "ü", "a b", "\x00", "-rf"]


def read(path: Path) -> dict[str, float]:
    families = text_string_to_metric_families(path.read_text(encoding="utf-8"))
    return {sample.name: sample.value for family in families for sample in family.samples}


def describe(pipeline: Pipeline, value: int) -> list[MetricSample]:
    return [MetricSample("cutover_batch_epoch", (pipeline.name,), value)]


@metrics.write_metrics("batch", metrics.describe_samples(describe))
def work(lake: PipelineLake, value: int) -> int:  # noqa: ARG001 -- the shape of a task
    return 10 // value


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_name_stays_in_the_folder(settings: Settings, name: str) -> None:
    assert metrics.write_text_file(settings, "watch", name, "")

    (file,) = settings.metrics_dir.iterdir()
    assert file.parent == metrics.make_metrics_path(settings, "watch", name).parent == settings.metrics_dir
    assert file.name.startswith("cutover_watch-")
    assert file.suffix == ".prom"


def test_two_hostile_names_have_two_files(settings: Settings) -> None:
    assert len({metrics.make_metrics_path(settings, "watch", name) for name in HOSTILE}) == len(HOSTILE)


def test_task_publishes_its_run_and_its_result(settings: Settings) -> None:
    assert work(PipelineLake(settings, PIPELINE), 2) == 5

    run = read(metrics.make_metrics_path(settings, "batch_run", "clicks"))
    assert run["cutover_task_failed"] == 0
    assert run["cutover_task_last_run_timestamp_seconds"] > 1.7e9
    assert read(metrics.make_metrics_path(settings, "batch", "clicks")) == {"cutover_batch_epoch": 5}


def test_failed_task_is_reported_and_keeps_the_last_result(settings: Settings) -> None:
    lake = PipelineLake(settings, PIPELINE)
    work(lake, 2)
    with pytest.raises(ZeroDivisionError):
        work(lake, 0)

    assert read(metrics.make_metrics_path(settings, "batch_run", "clicks"))["cutover_task_failed"] == 1
    assert read(metrics.make_metrics_path(settings, "batch", "clicks")) == {"cutover_batch_epoch": 5}


def test_other_users_can_read_a_file(settings: Settings) -> None:
    work(PipelineLake(settings, PIPELINE), 2)

    assert metrics.make_metrics_path(settings, "batch", "clicks").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("folder", ["/proc/nowhere", "/dev/null/x"])
def test_folder_that_cannot_be_written_is_a_warning(
    settings: Settings, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    unwritable = settings.model_copy(update={"metrics": MetricsSettings(folder=Path(folder))})

    assert work(PipelineLake(unwritable, PIPELINE), 2) == 5
    output = capsys.readouterr()
    assert "metrics_not_written" in output.out + output.err


def test_a_rejected_run_keeps_the_metrics_of_the_previous_one(settings: Settings) -> None:
    @metrics.write_metrics("batch", metrics.describe_samples(describe), answers=(LookupError,))
    def asked(lake: PipelineLake, error: Exception | None) -> int:  # noqa: ARG001 -- a task's shape
        if error is not None:
            raise error
        return 7

    place = metrics.make_metrics_path(settings, "batch_run", "clicks")
    lake = PipelineLake(settings, PIPELINE)
    with pytest.raises(KeyError):
        asked(lake, KeyError("x"))
    assert not place.exists()
    asked(lake, None)
    text = place.read_text()
    with pytest.raises(KeyError):
        asked(lake, KeyError("x"))
    assert place.read_text() == text
    with pytest.raises(ValueError, match="y"):
        asked(lake, ValueError("y"))
    assert read(place)["cutover_task_failed"] == 1


def test_description_that_fails_leaves_the_result(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    @metrics.write_metrics("batch", lambda *_: 1 // 0)  # type: ignore[arg-type]  # it is to fail
    def other(lake: PipelineLake) -> int:  # noqa: ARG001 -- the shape of a task
        return 7

    assert other(PipelineLake(settings, PIPELINE)) == 7
    output = capsys.readouterr()
    assert "metrics_not_written" in output.out + output.err


def test_no_file_is_written_without_a_folder(settings: Settings) -> None:
    work(PipelineLake(settings.model_copy(update={"metrics": MetricsSettings(files=False)}), PIPELINE), 2)

    assert not settings.metrics_dir.exists()
