"""Four ways to compare two tables, each reduced to one word: Cutover, DataComPy, and hand-written DuckDB queries."""

# ruff: noqa: S608 -- names are quoted by `identifier`, files are the test's own

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from cutover.quoting import identifier
from cutover.reconcile.external.request import DiffRequest
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from tests.support.diff.diff_cases import Answer, Case

PEER_PACKAGES = Path(__file__).parents[3] / "build" / "bench"
"""Where `make build/bench/datacompy` puts the peer: it never enters the project's own environment."""

WORDS: Mapping[Verdict, Answer] = {
    Verdict.CONSISTENT: "equal",
    Verdict.DIVERGED: "different",
    Verdict.NOT_COMPARABLE: "refused",
}


def write(case: Case, folder: Path) -> tuple[Path, Path]:
    """Write both tables of a case, expected side first."""
    endings = ["csv" if is_csv else "parquet" for is_csv in case.csv]
    files = folder / f"left.{endings[0]}", folder / f"right.{endings[1]}"
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for query, file in zip((case.left_source, case.right_source), files, strict=True):
            if file.suffix == ".csv":
                file.write_bytes(query.encode())
            else:
                connection.execute(f"COPY ({query}) TO '{file}' (FORMAT parquet)")
    return files


def run_cutover(case: Case, files: tuple[Path, Path]) -> Report:
    """Compare as `cutover diff` does."""
    return compare_tables(
        DiffRequest(
            expected=str(files[0]),
            actual=str(files[1]),
            key=case.key,
            names=case.names,
            normalized=case.normalized,
            tolerances=case.tolerances,
        )
    )


def run_datacompy(case: Case, files: tuple[Path, Path]) -> Answer:
    """Compare by DataComPy on polars, which keeps the types of Parquet; its defaults, and the tolerance of the case."""
    if str(PEER_PACKAGES) not in sys.path:
        sys.path.append(str(PEER_PACKAGES))
    polars, datacompy = import_module("polars"), import_module("datacompy")  # packages that only this answer needs
    back = {name: ours for ours, name in case.names.items()}
    relative = max((tolerance.relative or 0.0 for tolerance in case.tolerances.values()), default=0.0)
    left, right = (
        polars.read_csv(file) if file.suffix == ".csv" else polars.from_arrow(pq.read_table(file)) for file in files
    )
    compared = datacompy.PolarsCompare(left, right.rename(back), join_columns=[*case.key], rel_tol=relative, abs_tol=0)
    return "equal" if bool(compared.matches()) else "different"


def run_except_all(case: Case, files: tuple[Path, Path]) -> Answer:
    """Compare by `EXCEPT ALL`, both ways."""
    left, right = "SELECT * FROM l", f"SELECT {_columns(files[0])} FROM r"
    return _run_duckdb(
        case, files, f"SELECT 1 FROM (({left} EXCEPT ALL {right}) UNION ALL ({right} EXCEPT ALL {left}))"
    )


def run_full_join(case: Case, files: tuple[Path, Path]) -> Answer:
    """Compare by a full join of the key, as one writes it: null-safe, a row of one side only has no mark."""
    names = _names(files[0])
    on = " AND ".join(f"l.{identifier(name)} IS NOT DISTINCT FROM r.{identifier(name)}" for name in case.key)
    differs = [f"l.{identifier(name)} IS DISTINCT FROM r.{identifier(name)}" for name in names if name not in case.key]
    condition = " OR ".join(["l.__mark IS NULL", "r.__mark IS NULL", *differs])
    sides = "(SELECT *, 1 AS __mark FROM l) l FULL JOIN (SELECT *, 1 AS __mark FROM r) r"
    return _run_duckdb(case, files, f"SELECT 1 FROM {sides} ON {on} WHERE {condition}")


def _columns(file: Path) -> str:
    return ", ".join(map(identifier, _names(file)))


def _names(file: Path) -> list[str]:
    return list(duckdb.read_csv(str(file)).columns if file.suffix == ".csv" else pq.read_schema(file).names)


def _run_duckdb(case: Case, files: tuple[Path, Path], query: str) -> Answer:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        renamed = ", ".join(f"{identifier(name)} AS {identifier(ours)}" for ours, name in case.names.items())
        for name, file, names in zip("lr", files, ("", f" RENAME ({renamed})" if renamed else ""), strict=True):
            connection.execute(f"CREATE VIEW {name} AS SELECT *{names} FROM '{file}'")
        return "different" if connection.execute(f"SELECT 1 FROM ({query}) LIMIT 1").fetchall() else "equal"


ASK: Mapping[str, Callable[[Case, tuple[Path, Path]], Answer]] = {
    "DataComPy": run_datacompy,
    "EXCEPT ALL": run_except_all,
    "full join": run_full_join,
}
