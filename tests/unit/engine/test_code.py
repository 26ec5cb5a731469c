"""The hash of loaded code: of what runs, in every process the same."""

import os
import subprocess
import sys
import types
from dataclasses import replace

import pytest

from cutover import definition
from cutover.batch import context as batch_settings
from cutover.definition.windows.kinds import KINDS, WindowKind
from cutover.engine import readback
from cutover.engine.readback import SHARED, hash_modules, list_window_modules
from cutover.records import classify, fold
from cutover.records.parsing import limits, parser
from cutover.streaming.microbatch import epoch_record as streaming_settings
from tests.integration.streaming import rig

PRINT = "import json; from cutover.engine.readback import hash_modules; print(json.dumps(hash_modules()))"


def loaded(text: str) -> str:
    """Return the hash of a module that holds a text."""
    module = types.ModuleType("tests.made_up")
    exec(compile(text, "made_up.py", "exec"), vars(module))  # noqa: S102 -- text of this file
    sys.modules[module.__name__] = module
    try:
        return hash_modules([module.__name__])[module.__name__]
    finally:
        del sys.modules[module.__name__]


def test_two_processes_find_the_same_hashes() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PRINT], env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in ("1", "2")
    }

    assert len(outputs) == 1


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_modules_of_a_definitions_window_are_hashed_and_no_other_kinds(kind: WindowKind) -> None:
    window = eval(kind.example, vars(definition))  # noqa: S307 -- our own example
    code_hashes = readback.read_process_settings(replace(rig.pipeline("clicks"), window=window)).families["code"]
    window_modules = {name for name in code_hashes if name.startswith("cutover.definition.windows.")}

    assert type(window).__module__ in window_modules
    assert window_modules - set(SHARED) == {*list_window_modules(window)} - set(SHARED)


def test_modules_of_one_path_exist() -> None:
    names = (*streaming_settings.OWN, *batch_settings.OWN)

    assert hash_modules(names).keys() == set(names)


BASE = '''
from functools import cached_property
LIMIT = {"a": (1, 2.5), "b": None}
def judge(x, most=3):
    """Say it."""
    return [y + 1 for y in x if y < most]
class Rule:
    """A rule."""
    @property
    def size(self):
        return 1
    @cached_property
    def weight(self):
        return 7
'''


@pytest.mark.parametrize(
    "change",
    [
        ("2.5", "2.6"),
        ("None", "0"),
        ("most=3", "most=4"),
        ("y + 1", "y + 2"),
        ("y < most", "y <= most"),
        ("return 1", "return 2"),
        ("return 7", "return 8"),
        ("def size", "def length"),
    ],
)
def test_other_code_has_another_hash(change: tuple[str, str]) -> None:
    assert loaded(BASE) != loaded(BASE.replace(*change))


@pytest.mark.parametrize(
    "change", [("Say it.", "Say more."), ("A rule.", "Another."), ("def judge", "# why\n\ndef judge")]
)
def test_text_for_people_changes_no_hash(change: tuple[str, str]) -> None:
    assert loaded(BASE) == loaded(BASE.replace(*change))


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        (classify, "future_sql", lambda pipeline, event: "false"),  # noqa: ARG005 -- in its place
        (parser, "JSON_OPTIONS", {**parser.JSON_OPTIONS, "allowSingleQuotes": "true"}),
        (parser, "make_field_sqls", lambda topic: ()),  # noqa: ARG005 -- in its place
        (limits, "MAX_DEPTH", 10),
        (fold, "finish_sql", lambda pipeline, rows: "SELECT 1"),  # noqa: ARG005 -- in its place
    ],
)
def test_replaced_code_changes_the_hash(
    monkeypatch: pytest.MonkeyPatch, module: types.ModuleType, name: str, value: object
) -> None:
    original_hashes = hash_modules()

    monkeypatch.setattr(module, name, value)

    now = hash_modules()
    assert {module_name for module_name in SHARED if now[module_name] != original_hashes[module_name]} == {
        module.__name__
    }
