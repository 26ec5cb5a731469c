"""Cutover as a wheel in a separate environment, next to an Airflow whose folders have the names of our packages."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).with_name("uv")
ROOMS = ("streaming", "batch", "reconcile", "infra", "samples")
PARSE = """
import json, sys
from pathlib import Path
from airflow.dag_processing.dagbag import DagBag
folder = Path(sys.argv[1])
sys.path.insert(0, str(folder))
bag = DagBag(dag_folder=str(folder), bundle_path=folder, bundle_name="dags-folder")
ours = sorted(name for name in sys.modules if name.partition(".")[0] in set(sys.argv[2].split()))
files = {str(Path(module.__file__)) for name, module in sys.modules.items() if name.startswith("cutover.")}
print(json.dumps({"errors": bag.import_errors, "dags": bag.dag_ids, "rooms": ours, "files": sorted(files)}))
"""
HELP = """
import sys
from cutover.cli.app import main
sys.exit(max(main([command, "--help"]) for command in sys.argv[1:]))
"""


class Installed(NamedTuple):
    """A wheel, and an environment with it and, by a path, its dependencies."""

    wheel: Path
    environment: Path

    def run(self, program: str, *arguments: str, folder: Path, code: int = 0) -> str:
        """Run a program of the environment in a folder, without the repository in sight; returns what it printed."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("CUTOVER_", "PYTHON"))}
        completed = subprocess.run(
            [self.environment / "bin" / program, *arguments],
            env=inherited | {"CUTOVER_HOME": str(folder / "home"), "CUTOVER_PIPELINES": str(ROOT / "pipelines")},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        assert completed.returncode == code, completed.stdout[-2000:] + completed.stderr[-2000:]
        return completed.stdout + completed.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("installed")
    source, environment = folder / "source", folder / "environment"
    source.mkdir()
    for name in ("cutover", *ROOMS):
        # With its links as links; of a copy, so that no build is left in the repository.
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", source)
    uv(["build", "--wheel", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder], cwd=source)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True, timeout=120)
    uv(["pip", "install", "--no-deps", "--python", environment / "bin" / "python", wheel], cwd=folder)
    (packages,) = environment.glob("lib/*/site-packages")
    # A path in a .pth is searched last, and its own .pth are not read: nothing leads to the repository.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return Installed(wheel, environment)


def uv(words: list[str | Path], *, cwd: Path) -> None:
    completed = subprocess.run(
        [UV, "--offline", *words], cwd=cwd, capture_output=True, text=True, check=False, timeout=240
    )
    assert completed.returncode == 0, completed.stderr[-2000:]


def test_wheel_adds_one_top_level_name(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as wheel:
        names = {name.partition("/")[0] for name in wheel.namelist()}

    assert {"cutover"} == {name for name in names if not name.endswith(".dist-info")}


def test_wheel_has_every_module_of_the_rooms(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as wheel:
        names = set(wheel.namelist())

    modules = {
        str(Path("cutover", *([] if top == "cutover" else [top]), file.relative_to(ROOT / top)))
        for top in ("cutover", *ROOMS)
        for file in (ROOT / top).rglob("*.py")
    }
    assert modules - names == set()


def test_every_command_of_an_installed_cutover_is_listed(installed: Installed, tmp_path: Path) -> None:
    help_text = installed.run("cutover", "--help", folder=tmp_path)

    assert [name for name in ("lint", "stream", "batch", "reconcile", "up") if f" {name} " not in help_text] == []


def test_command_of_each_room_is_found(installed: Installed, tmp_path: Path) -> None:
    commands = ("stream", "batch", "reconcile", "up")
    printed = installed.run("python", "-c", HELP, *commands, folder=tmp_path)

    assert [command for command in commands if f"cutover {command}" not in printed] == []


def test_installed_cutover_checks_the_samples(installed: Installed, tmp_path: Path) -> None:
    assert "flights" in installed.run("cutover", "lint", folder=tmp_path)


def test_query_of_a_lake_that_is_not_there_is_refused_with_the_next_command(
    installed: Installed, tmp_path: Path
) -> None:
    refusal = installed.run("cutover", "sql", "flights", "SELECT 1", folder=tmp_path, code=2)

    assert "Hint: `cutover stream flights --drain`" in refusal


def test_dags_parse_beside_folders_with_the_names_of_our_rooms(
    installed: Installed, airflow_home: Path, tmp_path: Path
) -> None:
    assert airflow_home.is_dir()
    dags = tmp_path / "dags"
    shutil.copytree(ROOT / "dags", dags, ignore=shutil.ignore_patterns("__pycache__"))
    for room in ROOMS:
        (dags / room).mkdir()
        (dags / room / "__init__.py").write_text("raise ImportError('a folder of the user')", encoding="utf-8")
    with (dags / ".airflowignore").open("a", encoding="utf-8") as ignored:
        ignored.write("".join(f"{room}/\n" for room in ROOMS))

    printed = installed.run("python", "-c", PARSE, str(dags), " ".join(ROOMS), folder=tmp_path)
    bag_summary = json.loads(next(line for line in printed.splitlines() if line.startswith('{"errors"')))

    assert bag_summary["errors"] == {}
    assert {"flights_batch", "flights_reconcile", "flights_stream"} <= set(bag_summary["dags"])
    assert bag_summary["rooms"] == []
    assert [file for file in bag_summary["files"] if not file.startswith(str(installed.environment))] == []
