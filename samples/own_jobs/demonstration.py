"""Demonstration of docs/adopt.md: a streaming job and a batch job that were written without Cutover are adopted.

It runs both jobs, then each command as a reader would type it, in an installation of its own. At the end the batch job
is changed, and the next comparison attributes the difference to it.
"""

import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from cutover.samples.own_jobs.payments import TOPIC, send_payments

HOME = Path(".cutover-adopt")
JOBS = Path(__file__).parent
ADDRESS = "PAYMENTS_DB"
"""Variable with the address of the batch job's table, as in the definition."""
CHANGED = "status IN ('settled', 'declined')"
"""Condition of the batch job after somebody has changed it."""
_COMMAND = [sys.executable, "-m", "cutover.cli.app"]


def main() -> int:
    """Run the demonstration; return 0 if it went as docs/adopt.md says."""
    started = time.monotonic()
    home = HOME.resolve()
    environment = {
        "CUTOVER_HOME": str(home),
        "CUTOVER_PIPELINES": str(home / "pipelines"),
        "CUTOVER_SPARK__DRIVER_MEMORY": "1g",
    }
    os.environ |= environment
    _run("down")
    shutil.rmtree(home, ignore_errors=True)
    (home / "pipelines").mkdir(parents=True)
    try:
        with _run_postgres() as address:
            os.environ[ADDRESS] = address
            is_as_promised = _show(home, _run("up", "--broker-only", "--json"), address)
    finally:
        _run("down")
    minutes, seconds = divmod(round(time.monotonic() - started), 60)
    sys.stdout.write(f"\nTook {minutes} min {seconds} s. Next: `docs/adopt.md` does the same with your two jobs.\n")
    return 0 if is_as_promised else 1


def _show(home: Path, started: str, address: str) -> bool:
    bootstrap = json.loads(started.splitlines()[-1])["bootstrap"]
    sys.stdout.write(f"{send_payments(bootstrap):,} payments are in topic `{TOPIC}`. Your two jobs read them.\n")
    sys.stdout.flush()
    _run_job("stream_job", bootstrap, str(home))
    jobs = ("adopt", "payments", "--checkpoint", f"{home}/checkpoint", "--stream", f"{home}/payments_hourly")
    _type(*jobs, "--yes")
    _write("The batch job runs, up to the offsets of `cutover cut payments --env`, and is adopted, too.")
    lines = _run("cut", "payments", "--env").splitlines()
    variables = dict(line.split("=", 1) for line in lines if "=" in line)
    _run_job("nightly_job", bootstrap, address, variables=variables)
    (home / "pipelines" / "payments.py").unlink()
    _type(*jobs, "--batch", f"env:{ADDRESS}#payments_hourly", "--yes")
    _type("follow", "payments", "--drain")
    _type("batch", "payments")
    agreed = _type("reconcile", "payments")
    _write("Somebody changes the batch job: declined payments count, too. It runs again.")
    _run_job("nightly_job", bootstrap, address, CHANGED, variables=variables)
    return (agreed, _type("reconcile", "payments")) == (0, 1)


def _write(text: str) -> None:
    sys.stdout.write(f"\n{text}\n")
    sys.stdout.flush()


def _run_job(name: str, *arguments: str, variables: Mapping[str, str] | None = None) -> None:
    """Run a job as `spark-submit` would, with the JARs of Kafka and Delta; its log is in the installation."""
    jars = ",".join(
        str(jar) for jar in sorted((Path(sys.prefix) / "share" / "cutover" / "jars" / "spark").glob("*.jar"))
    )
    options = {
        "spark.jars": jars,
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    submit = " ".join(f"--conf {key}={value}" for key, value in options.items())
    environment = os.environ | {"PYSPARK_SUBMIT_ARGS": f"{submit} pyspark-shell"} | dict(variables or {})
    with (HOME / f"{name}.log").open("wb") as log:
        command = [sys.executable, str(JOBS / f"{name}.py"), *arguments]
        subprocess.run(command, env=environment, stdout=log, stderr=log, check=True)


def _type(*arguments: str) -> int:
    """Print a command, run it as a reader would, and return its exit code; its events are in the installation."""
    sys.stdout.write(f"\n$ cutover {' '.join(arguments)}\n")
    sys.stdout.flush()
    log_path = HOME / f"{arguments[0]}.log"
    with log_path.open("wb") as log:
        code = subprocess.run([*_COMMAND, *arguments], stderr=log, check=False).returncode
    if code not in {0, 1}:
        reason = log_path.read_text(encoding="utf-8", errors="replace")[-2000:]
        msg = f"Demonstration: expected exit code 0 or 1 of `cutover {arguments[0]}`, got {code}.\n{reason}"
        raise SystemExit(msg)
    return code


def _run(*arguments: str) -> str:
    return subprocess.run([*_COMMAND, *arguments], check=True, capture_output=True, text=True).stdout


@contextmanager
def _run_postgres() -> Iterator[str]:
    """Yield the address of a server of the batch job's own, on a free port of this machine; it ends with the block."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: path.parent.parent.name)
    initdb = shutil.which("initdb") or (str(programs[-1]) if programs else None)
    if initdb is None:
        msg = (
            "PostgreSQL: expected `initdb` for the table of the batch job, got none.\nHint: apt-get install postgresql"
        )
        raise SystemExit(msg)
    with tempfile.TemporaryDirectory(prefix="cutover-adopt-", ignore_cleanup_errors=True) as folder:
        as_owner: list[str] = []
        if os.getuid() == 0:  # the server refuses to run as root
            owner = pwd.getpwnam("postgres")
            os.chown(folder, owner.pw_uid, owner.pw_gid)
            as_owner = ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]
        control, port = str(Path(initdb).with_name("pg_ctl")), _find_free_port()
        data, log = f"{folder}/data", f"{folder}/log"
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories="
        _run_program([*as_owner, initdb, "-D", data, "-U", "team", "-A", "trust", "-E", "UTF8", "--locale=C"], folder)
        _run_program([*as_owner, control, "-D", data, "-w", "-l", log, "-o", options, "start"], folder)
        try:
            yield f"postgresql://team@127.0.0.1:{port}/postgres"
        finally:
            _run_program([*as_owner, control, "-D", data, "-w", "-m", "immediate", "stop"], folder)


def _run_program(command: Sequence[str], folder: str) -> None:
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.exit(main())
