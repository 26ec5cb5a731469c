"""Operators for a team's own DAGs: pin a cut before the batch job, and compare after it.

    cut = CutoverCutOperator(task_id="cut", pipeline="payments")
    job = BashOperator(task_id="job", bash_command="...", env=cut.output, append_env=True)
    cut >> job >> CutoverReconcileOperator(task_id="compare", pipeline="payments")

Computing and comparing are the work of the DAGs `<pipeline>_batch` and `<pipeline>_reconcile`, with their pool and
their retries. The operator triggers one after the other and waits in the triggerer, without a worker slot.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urljoin

from airflow.configuration import conf
from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.exceptions import AirflowFailException, DagRunTriggerException

from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.errors import CutoverError, DefinitionError
from cutover.settings import load_settings

VERDICT_KEYS = ("verdict", "exit_code", "sentence", "report")
"""XComs of a comparing task, which it pushes before a failing verdict fails it."""


class ReportLink(BaseOperatorLink):
    """Link to the report of the comparison that a task has caused."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """Return the page that leads to the report; Airflow stores it when the task ends."""
        run_id = quote(name_run(ti_key), safe="")
        return make_page_address(f"open?dag_id={quote(operator.pipeline)}_reconcile&run_id={run_id}")


class GateLink(BaseOperatorLink):
    """Link to the page of a pipeline: the gate's conditions, reports and the stream."""

    name = "Gate"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:  # noqa: ARG002 -- the same for all of its tasks
        """Return the page of the operator's pipeline."""
        return make_page_address(f"pipelines/{quote(operator.pipeline)}")


class CutoverCutOperator(BaseOperator):
    """Pin a cut of a pipeline's topics: the end of each partition when the task runs.

    Returns the environment of the job, as `cutover cut --env` prints it: `CUTOVER_CUT` has the offsets in the form of
    Spark's `endingOffsets`, `CUTOVER_POSITION` the position that the job records. A repeated task pins another cut.

    Args:
        pipeline: Name of the pipeline; templated.
    """

    template_fields: Sequence[str] = ("pipeline",)
    operator_extra_links = (GateLink(),)

    def __init__(self, *, pipeline: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline

    def execute(self, context: Mapping[str, Any]) -> dict[str, str]:  # noqa: ARG002 -- nothing of it is needed
        """Ask the broker for the end of each partition.

        Raises:
            AirflowFailException: There is no such pipeline. An unreachable broker fails the task in the usual way.
        """
        # These bring the Kafka client: only where a task runs.
        from cutover.log.kafka import LogClient  # noqa: PLC0415
        from cutover.positions.log_check import find_log_end  # noqa: PLC0415
        from cutover.positions.position import make_job_environment  # noqa: PLC0415

        settings = load_settings()
        try:
            definition = catalogue.get(settings, self.pipeline)
        except DefinitionError as error:
            raise AirflowFailException(str(error)) from error
        position = find_log_end(LogClient(settings), definition, SystemClock().now())
        return make_job_environment(position)


class CutoverReconcileOperator(BaseOperator):
    """Compute the truth of a pipeline from the log, compare, and fail if the verdict is not acceptable.

    The task triggers `<pipeline>_batch` and then `<pipeline>_reconcile`, and waits for each in the triggerer. It
    returns `verdict`, `exit_code`, `sentence` and `report`; each is also an XCom when the verdict fails the task.

    Args:
        pipeline: Name of the pipeline; templated.
        poll_interval: Seconds between two looks at a triggered run.
    """

    template_fields: Sequence[str] = ("pipeline",)
    operator_extra_links = (ReportLink(), GateLink())

    def __init__(self, *, pipeline: str, poll_interval: int = 10, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.poll_interval = poll_interval

    def execute(self, context: Mapping[str, Any]) -> None:
        """Trigger the batch run, and wait for it.

        Raises:
            AirflowFailException: There is no such pipeline, or one of its DAGs is paused and would wait forever.
        """
        try:
            catalogue.get(load_settings(), self.pipeline)
        except CutoverError as error:
            raise AirflowFailException(str(error)) from error
        for dag_id in (self._batch_dag, self._reconcile_dag):
            if context["ti"].get_dag(dag_id).is_paused:
                msg = f"DAG {dag_id}: expected it to be unpaused, a triggered run of it would wait.\n"
                raise AirflowFailException(msg + f"Hint: airflow dags unpause {dag_id}")
        self._trigger(self._batch_dag, context)

    def execute_complete(self, context: Mapping[str, Any], event: Any) -> dict[str, Any]:
        """Trigger the comparison after the batch run, and return its verdict after the comparison.

        Args:
            context: Of this task.
            event: What Airflow's trigger of DAG runs has seen: its class, and its arguments with the state of the run.

        Raises:
            AirflowFailException: The batch run failed, nothing could be compared, or the verdict is not acceptable.
        """
        finished = event[1]
        dag_id, (run_id,) = finished["dag_id"], finished["run_ids"]
        if dag_id == self._batch_dag:
            if finished[run_id] == "failed":
                raise AirflowFailException(describe_failed_run(dag_id, run_id))
            self._trigger(self._reconcile_dag, context)
        return self._read_verdict(context, run_id)

    @property
    def _batch_dag(self) -> str:
        return f"{self.pipeline}_batch"

    @property
    def _reconcile_dag(self) -> str:
        return f"{self.pipeline}_reconcile"

    def _trigger(self, dag_id: str, context: Mapping[str, Any]) -> None:
        """End this part of the task: Airflow triggers a run and resumes the task when the run has ended."""
        raise DagRunTriggerException(
            trigger_dag_id=dag_id,
            dag_run_id=name_run(context["ti"]),
            conf=None,
            reset_dag_run=False,
            skip_when_already_exists=False,
            wait_for_completion=True,
            allowed_states=["success"],
            failed_states=["failed"],
            poke_interval=self.poll_interval,
            deferrable=True,
        )

    def _read_verdict(self, context: Mapping[str, Any], run_id: str) -> dict[str, Any]:
        ti, dag_id = context["ti"], self._reconcile_dag
        verdict = {
            key: ti.xcom_pull(task_ids="compare", dag_id=dag_id, run_id=run_id, key=key, map_indexes=0)
            for key in VERDICT_KEYS
        }
        if verdict["verdict"] is None:
            raise AirflowFailException(describe_failed_run(dag_id, run_id))
        for key, value in verdict.items():
            ti.xcom_push(key=key, value=value)
        if verdict["exit_code"] != 0:
            msg = f"{verdict['verdict']}: {verdict['sentence']}\nReport: {verdict['report']}"
            raise AirflowFailException(msg)
        return verdict


def name_run(ti: Any) -> str:
    """Name the runs that an attempt of a task triggers: readable, unique, and never longer than Airflow takes."""
    attempt = f"{ti.dag_id}__{ti.task_id}__{ti.run_id}__{ti.map_index}__{ti.try_number}"
    digest = hashlib.sha256(attempt.encode()).hexdigest()[:12]
    return f"{ti.dag_id[:100]}__{ti.task_id[:100]}__{digest}"


def make_page_address(page: str) -> str:
    """Return the address of one of Cutover's pages in this Airflow."""
    base_url = str(conf.get("api", "base_url", fallback="/")).rstrip("/") + "/"
    return urljoin(base_url, f"cutover/{page}")


def describe_failed_run(dag_id: str, run_id: str) -> str:
    """Return the error of a triggered run that failed, with where its reason is."""
    return f"DAG {dag_id}: expected a result of the run {run_id}, it failed before.\nHint: its log has the reason."
