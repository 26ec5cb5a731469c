"""The runner as `make bench` starts it, at sizes that say nothing about speed."""

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.results.figure import Figure

REPOSITORY = Path(__file__).parents[3]


def test_runner_measures_checks_and_writes_the_page(kafka_bootstrap: str, tmp_path: Path) -> None:
    sizes = ("--scale", "0.003", "--rounds", "1")
    command = (sys.executable, "-m", "benchmarks", "--only", "batch", *sizes)
    ended = subprocess.run(
        (*command, "--bootstrap", kafka_bootstrap, "--into", str(tmp_path)),
        cwd=REPOSITORY,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert ended.returncode == 0, ended.stderr[-3_000:]
    figure = Figure.read(tmp_path / "benchmarks" / "batch.json")

    assert not figure.full
    assert all(numbers[0] > 0 for numbers in figure.samples.values())
    assert "all 3,000 events" in figure.equal[0]
    assert "make bench ONLY=batch" in (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
