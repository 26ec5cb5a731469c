"""Faults that are promised here and caused by tests of another kind."""

from tests.faults.fault import Fault, RunElsewhere

CHAIN = "tests/e2e/airflow/test_chain.py, in `make test-long`, with a whole Airflow"
PAGES = "tests/e2e/airflow/test_pages.py, in `make test`, with a real API server"

FAULTS: tuple[Fault, ...] = ()
RUN_ELSEWHERE = (
    RunElsewhere(
        id="F29",
        family="airflow",
        title="Airflow worker lost: task cleared, marked as failed, its driver killed",
        location=CHAIN,
    ),
    RunElsewhere(
        id="F30",
        family="airflow",
        title="Airflow services lost: triggerer; scheduler, DAG processor and API server at once",
        location=CHAIN,
    ),
    RunElsewhere(id="F33", family="airflow", title="path traversal, forged and missing tokens", location=PAGES),
)
