"""A process that drafts, publishes or takes back a repair, and kills itself with SIGKILL at a named point."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from cutover.batch.repair.repair import make_draft, publish_draft, undo_repair
from cutover.clock import Point, SystemClock
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from tests.integration.batch.lab import Lab, pipeline_of

ROOT = Path(__file__).resolve().parents[4]


def kill_at(lab: Lab, action: str, point: str, *window: int) -> int:
    """Return what the process ended with: -9 if the point was reached."""
    words = [lab.settings.model_dump_json(), lab.topic, action, point, *map(str, window)]
    command = [sys.executable, "-m", "tests.integration.batch.repair.repair_child", *words]
    return subprocess.run(command, cwd=ROOT, check=False, timeout=240, stdin=subprocess.DEVNULL).returncode


def main() -> None:
    """Do one action."""
    raw, topic, action, stop, *window = sys.argv[1:]
    settings, pipeline, clock = Settings.model_validate_json(raw), pipeline_of(topic), SystemClock()

    def die(point: Point, epoch: int) -> None:  # noqa: ARG001 -- the protocol's names
        if point == stop:
            os.kill(os.getpid(), signal.SIGKILL)

    lake = PipelineLake(settings, pipeline)
    if action == "draft":
        make_draft(lake, [(int(window[0]), int(window[1]))], clock=clock, probe=die)
    elif action == "publish":
        publish_draft(lake, None, clock=clock, probe=die)
    else:
        undo_repair(lake, None, clock=clock, probe=die)


if __name__ == "__main__":
    main()
