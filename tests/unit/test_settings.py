"""Invalid settings are one message with their location, which never contains a secret."""

import os
from pathlib import Path

import pytest

from cutover.errors import DefinitionError
from cutover.settings import load_settings

SECRET = "hunter2"  # noqa: S105 -- made up


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("text", [b"home = [", b"\xff\xfe", b"[kafka\npassword = 'hunter2'"])
def test_a_file_that_is_not_toml_is_reported(folder: Path, text: bytes) -> None:
    (folder / "cutover.toml").write_bytes(text)

    with pytest.raises(DefinitionError, match=r"`cutover.toml`: expected a file in TOML") as refused:
        load_settings()
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value", "place"),
    [
        ("CUTOVER_KAFKA", '{"password": "hunter2"', "kafka"),
        ("CUTOVER_KAFKA__PASWORD", SECRET, "kafka.pasword"),
        ("CUTOVER_KAFKA__TIMEOUT_SECONDS", SECRET, "kafka.timeout_seconds"),
    ],
)
def test_an_invalid_variable_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str, place: str) -> None:
    monkeypatch.setenv(name, value)

    with pytest.raises(DefinitionError, match=place) as refused:
        load_settings()
    assert SECRET not in str(refused.value)


def test_the_environment_takes_precedence_over_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "cutover.toml").write_text('home = "a"\npipelines = "b"\n', encoding="utf-8")
    monkeypatch.setenv("CUTOVER_HOME", "c")

    assert (load_settings().home, load_settings().pipelines) == (Path("c"), Path("b"))


def test_a_home_whose_path_is_no_text_is_rejected(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = folder / os.fsdecode(b"\xff")
    inner.mkdir()
    monkeypatch.chdir(inner)

    with pytest.raises(DefinitionError, match=r"home: .*expected a path in UTF-8"):
        load_settings()
