"""Configuration built by the Spark session factory, without starting Spark."""

import shlex
import sys
import threading
from pathlib import Path

import pytest

from cutover.engine import spark
from cutover.engine.spark import archive, cores, make_spark_conf
from cutover.errors import DefinitionError, LakeError
from cutover.settings import Settings, SparkSettings


def settings(home: Path, *, master: str = "local[2]", conf: dict[str, str] | None = None) -> Settings:
    return Settings(home=home, spark=SparkSettings(master=master, conf=conf or {}))


def test_local_session_listens_only_on_loopback(tmp_path: Path) -> None:
    conf = make_spark_conf(settings(tmp_path))

    assert {conf["spark.driver.host"], conf["spark.driver.bindAddress"]} == {"127.0.0.1"}
    assert conf["spark.ui.enabled"] == "false"


def test_local_session_shuffles_into_as_many_partitions_as_there_are_cores(tmp_path: Path) -> None:
    assert make_spark_conf(settings(tmp_path, master="local[3]"))["spark.sql.shuffle.partitions"] == "3"


def test_temporary_files_lie_under_home(tmp_path: Path) -> None:
    conf = make_spark_conf(settings(tmp_path))

    assert Path(conf["spark.local.dir"]).is_relative_to(tmp_path)
    assert Path(conf["spark.sql.warehouse.dir"]).is_relative_to(tmp_path)


def test_java_options_hold_with_a_blank_in_the_folder(tmp_path: Path) -> None:
    home = tmp_path / "a folder"
    options = shlex.split(make_spark_conf(settings(home))["spark.driver.extraJavaOptions"])

    assert f"-Djava.io.tmpdir={home / 'tmp' / 'spark'}" in options
    assert any(option.endswith("a%20folder/tmp/spark/log4j2.properties") for option in options)


def test_class_archive_is_used_if_it_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars = tmp_path / "share" / "cutover" / "jars" / "spark"
    jars.mkdir(parents=True)
    (jars / "delta.jar").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    without = make_spark_conf(settings(tmp_path))
    archive().touch()

    conf = make_spark_conf(settings(tmp_path))

    assert "SharedArchiveFile" not in without["spark.driver.extraJavaOptions"]
    assert f"-XX:SharedArchiveFile={archive()}" in shlex.split(conf["spark.driver.extraJavaOptions"])
    assert (conf["spark.driver.extraClassPath"], "spark.jars" in conf) == (str(jars / "*"), False)


def test_executors_of_a_cluster_fetch_the_jars(tmp_path: Path) -> None:
    conf = make_spark_conf(settings(tmp_path, master="yarn"))

    assert all(Path(jar).is_file() for jar in conf["spark.jars"].split(","))


@pytest.mark.parametrize("key", ["spark.driver.host", "spark.local.dir", "spark.driver.extraClassPath"])
def test_a_cluster_keeps_its_own_hosts_and_folders(tmp_path: Path, key: str) -> None:
    assert key not in make_spark_conf(settings(tmp_path, master="spark://127.0.0.1:7077"))


@pytest.mark.parametrize(("conf", "expected"), [({}, "8"), ({"spark.cores.max": "12"}, "12")])
def test_a_cluster_shuffles_into_as_many_partitions_as_it_may_use_cores(
    tmp_path: Path, conf: dict[str, str], expected: str
) -> None:
    session_conf = make_spark_conf(settings(tmp_path, master="yarn", conf=conf))

    assert session_conf["spark.sql.shuffle.partitions"] == expected


def test_further_conf_is_passed_through(tmp_path: Path) -> None:
    assert make_spark_conf(settings(tmp_path, conf={"spark.task.maxFailures": "1"}))["spark.task.maxFailures"] == "1"


def test_conf_that_affects_results_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"expected `spark.sql.session.timeZone` = `UTC`, got .*`Europe/Berlin`"):
        make_spark_conf(settings(tmp_path, conf={"spark.sql.session.timeZone": "Europe/Berlin"}))


def test_missing_jars_are_named_with_their_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))

    with pytest.raises(LakeError, match=r"expected them in .*jars/spark.*\n.*make setup"):
        make_spark_conf(settings(tmp_path))


def test_early_start_requests_the_same_session_and_ignores_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_requested, called = threading.Event(), []

    def fails(*arguments: object, **options: object) -> None:
        called.append((arguments, options))
        session_requested.set()
        msg = "no JARs"
        raise LakeError(msg)

    monkeypatch.setattr(spark, "session", fails)
    spark.start_early(settings(tmp_path), app="cutover-clicks")

    assert session_requested.wait(10)
    assert called == [((settings(tmp_path),), {"app": "cutover-clicks"})]


@pytest.mark.parametrize(("master", "expected"), [("local", 1), ("local[4]", 4), ("local[3,2]", 3)])
def test_cores_of_a_local_master(master: str, expected: int) -> None:
    assert expected == cores(master)
