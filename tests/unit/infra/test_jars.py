from pathlib import Path

import pytest

from cutover.infra.install import jars


def test_every_locked_set_names_its_jars_with_a_sum() -> None:
    counts = {jar_set: len(jars.read_locked_checksums(jar_set)) for jar_set in jars.SETS.values()}

    assert counts == {"spark": 9, "kafka": 46, "s3": 3}
    assert all(
        len(total) == 64 for jar_set in jars.SETS.values() for total in jars.read_locked_checksums(jar_set).values()
    )


def test_the_sets_do_not_mix() -> None:
    assert jars.locate_jars("spark") != jars.locate_jars("kafka")
    assert not jars.read_locked_checksums("spark").keys() & jars.read_locked_checksums("kafka").keys()


def test_the_bootstrap_excludes_the_object_store() -> None:
    assert jars.BOOTSTRAP == ("spark", "kafka")


def test_a_wrong_checksum_is_reported_with_both_values() -> None:
    assert jars.compare_checksums({"a.jar": "1"}, {"a.jar": "2"}) == ["a.jar: expected sha256 1, got 2"]


def test_missing_and_unknown_jars_are_reported() -> None:
    assert jars.compare_checksums({"a.jar": "1"}, {"b.jar": "1"}) == ["a.jar: missing", "b.jar: not in the lock"]


def test_a_set_with_a_wrong_checksum_is_rejected_and_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bring_another(_jar_set: str, _scratch: Path, target: Path, _tell: object) -> None:
        target.mkdir()
        for name in jars.read_locked_checksums("spark"):
            (target / name).write_bytes(b"another")

    monkeypatch.setattr(jars, "ROOT", tmp_path)
    monkeypatch.setattr(jars, "_run_ivy", bring_another)

    with pytest.raises(jars.JarError, match=r"commons-pool2-2\.13\.1\.jar: expected sha256 \w+, got \w+"):
        jars.fetch("spark", lambda _line: None)

    assert list(tmp_path.iterdir()) == []
