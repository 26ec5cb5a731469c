"""What is promised and caused somewhere else, or has no feature yet."""

from tests.faults.fault import Fault, NotApplicable

CHAIN = "tests/e2e/airflow/test_chain.py, in `make test`, with a whole Airflow"

FAULTS: tuple[Fault, ...] = ()
NOT_APPLICABLE = (
    NotApplicable(
        id="F29",
        family="airflow",
        title="Airflow worker lost: task cleared, failed by hand, its driver killed",
        why=f"run by {CHAIN}",
    ),
    NotApplicable(
        id="F30",
        family="airflow",
        title="Airflow services lost: triggerer; scheduler, DAG processor and API server at once",
        why=f"run by {CHAIN}",
    ),
    NotApplicable(
        id="F31",
        family="airflow",
        title="difference after retirement",
        why="a batch path that was retired is not audited by samples yet",
    ),
    NotApplicable(id="F33", family="airflow", title="path traversal", why="no page is served by Airflow yet"),
)
