"""Catalogue of definitions: a file that fails, hangs or exits is reported without affecting the others."""

from pathlib import Path

import pytest

from cutover.definition.loading import catalogue
from cutover.errors import DefinitionError
from cutover.settings import Settings
from tests.unit.definition.checks.test_check import text, write

BROKEN = {
    "syntax": "def (:\n",
    "import": "import no_such_module_of_anyone\n",
    "exception": "raise RuntimeError('boom')\n",
    "exit": "import sys\nsys.exit(0)\n",
    "exit-now": "import os\nos._exit(0)\n",
    "exit-swallowed": "import os\ntry:\n    os._exit(0)\nexcept Exception:\n    pass\n",
    "abort": "from os import abort\nabort()\n",
    "kill": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
    "signal": "import signal\nsignal.raise_signal(signal.SIGKILL)\n",
    "alarm": "import signal\nsignal.alarm(1)\n",
    "exec": "import os\nos.execlp('true', 'true')\n",
    "fork": "import os\nos.fork()\n",
    "chdir": "import os\nos.chdir('/')\n",
    "interrupt": "raise KeyboardInterrupt\n",
    "no-text": "class E(Exception):\n    def __str__(self): raise ValueError\nraise E\n",
    "text-exits": "class E(Exception):\n    def __str__(self): raise SystemExit\nraise E\n",
    "no-class": "class V:\n    @property\n    def __class__(self): raise ValueError\nv = V()\n",
    "no-type-name": "class M(type):\n    @property\n    def __name__(cls): raise ValueError\n"
    "class E(Exception, metaclass=M): pass\nraise E\n",
    "definition-error": "from cutover.errors import DefinitionError\nclass E(DefinitionError):\n"
    "    def __str__(self): raise ValueError\nraise E('')\n",
    "loop": "while True:\n    pass\n",
    "keyboard": "input('name? ')\n",
    "recursion": "def f(): return f()\nf()\n",
    "type": 'p = Pipeline(name="x", source=None, key=None, window=None, measures=None)\n',
    "name": "p = Pipeline(name=None, source=None, key=(), window=None, measures={})\n",
}


@pytest.fixture
def short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "LOADS_WITHIN_SECONDS", 1.5)
    monkeypatch.setattr(catalogue, "_FIRST_SECONDS", 0.5)


@pytest.mark.usefixtures("short_limit")
@pytest.mark.parametrize("kind", BROKEN)
def test_broken_file_is_named_and_the_others_load(kind: str, tmp_path: Path) -> None:
    write(tmp_path, "a.py", text("a"))
    write(tmp_path, f"{kind}.py", BROKEN[kind])
    settings = write(tmp_path, "z.py", text("z"))

    loaded = catalogue.read_catalogue(settings)

    assert list(loaded.pipelines) == ["a", "z"]
    assert list(loaded.problems_by_file) == [tmp_path / f"{kind}.py"]
    assert f"{kind}.py" in str(loaded.problems[0])
    assert catalogue.get(settings, "z").name == "z"


@pytest.mark.usefixtures("short_limit")
def test_hanging_file_is_reported_with_the_time_limit(tmp_path: Path) -> None:
    settings = write(tmp_path, "a.py", BROKEN["loop"])

    with pytest.raises(DefinitionError, match=r"a\.py: expected a definition that loads within 1\.5 s"):
        catalogue.get(settings, "a")


def test_only_the_problem_of_a_named_file_is_reported(tmp_path: Path) -> None:
    write(tmp_path, "a.py", BROKEN["exception"])
    settings = write(tmp_path, "b.py", text("b", batch='Sql("none.sql")'))

    with pytest.raises(DefinitionError, match=r"^b\.py: pipeline `b`: batch: ") as refusal:
        catalogue.get(settings, "b")
    assert "a.py" not in str(refusal.value)


def test_name_in_two_files_is_a_problem_of_both_and_of_no_other(tmp_path: Path) -> None:
    write(tmp_path, "a.py", text("a"))
    write(tmp_path, "copy.py", text("a"))
    settings = write(tmp_path, "z.py", text("z"))

    loaded = catalogue.read_catalogue(settings)

    assert list(loaded.pipelines) == ["z"]
    assert set(loaded.problems_by_file) == {tmp_path / "a.py", tmp_path / "copy.py"}
    assert len(loaded.problems) == 1


def test_folder_and_dangling_link_named_like_a_definition_are_reported(tmp_path: Path) -> None:
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "link.py").symlink_to(tmp_path / "nowhere")
    settings = write(tmp_path, "z.py", text("z"))

    pipelines, problems = catalogue.scan(settings)

    assert list(pipelines) == ["z"]
    assert len(problems) == 2


def test_no_folder_has_no_pipelines(tmp_path: Path) -> None:
    assert catalogue.scan(Settings(pipelines=tmp_path / "none")) == ({}, ())
