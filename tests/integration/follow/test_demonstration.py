"""The demonstration of adopted jobs, as `make demo-adopt` runs it."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.servers.postgres import find_programs


def test_jobs_that_know_nothing_of_cutover_are_adopted_and_a_change_is_attributed_to_its_job(tmp_path: Path) -> None:
    find_programs()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CUTOVER_")}

    shown = subprocess.run(
        [sys.executable, "-m", "cutover.samples.own_jobs.demonstration"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert shown.returncode == 0, shown.stdout[-3000:] + shown.stderr[-3000:]
    assert "Reproduces all 576 of 576 cells of the table" in shown.stdout
    assert "Batch table: the definition reproduces all 576 of 576 cells at its position" in shown.stdout
    assert "The batch job does not do what the definition says" in shown.stdout
