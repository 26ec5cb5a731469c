"""The columns of the control tables: what the installation writes down of itself."""

from collections.abc import Mapping

import pyarrow as pa

from cutover.lake.paths import ControlTable
from cutover.lake.tables.schemas import TIMESTAMP, make_schema

_OWN: Mapping[str, pa.DataType] = {"pipeline": pa.string(), "sequence": pa.int64()}
SCHEMAS: Mapping[ControlTable, pa.Schema] = {
    "versions": make_schema(
        {
            "pipeline": pa.string(),
            "result_fingerprint": pa.string(),
            "stream_version": pa.int64(),
            "lateness_fingerprint": pa.string(),
            "created_at": TIMESTAMP,
            "definition": pa.string(),
            "fork_version": pa.int64(),  # null: it begins where the log does
            "fork_epoch": pa.int64(),
            "sequence": pa.int64(),
            "beside": pa.bool_(),  # made by a replay, serves nothing yet; a later row lets the version serve
            "deleted": pa.bool_(),  # its tables are gone, since nobody was served from them
            "who": pa.string(),
            "why": pa.string(),
        }
    ),
    "gate": make_schema(
        {
            **_OWN,
            "at": TIMESTAMP,
            "event": pa.string(),
            "stage": pa.string(),
            "result_fingerprint": pa.string(),
            "stream_version": pa.int64(),
            "who": pa.string(),
            "why": pa.string(),
            "evidence": pa.string(),
            "seen": pa.int64(),  # sequence of the first comparison that a move knew nothing of
        }
    ),
    "pins": make_schema(
        {
            **_OWN,
            "result_fingerprint": pa.string(),
            "stream_version": pa.int64(),
            "epoch": pa.int64(),
            "holder": pa.string(),
            "expires_at": TIMESTAMP,
            "released": pa.bool_(),
            "at": TIMESTAMP,
        }
    ),
    "losses": make_schema(
        {
            "pipeline": pa.string(),
            "sequence": pa.int64(),  # of the recorded step; its rows share it
            "result_fingerprint": pa.string(),
            "stream_version": pa.int64(),
            "epoch": pa.int64(),
            "kind": pa.string(),
            "topic": pa.string(),
            "topic_id": pa.string(),
            "partition": pa.int32(),
            "first": pa.int64(),
            "next": pa.int64(),
            "again": pa.bool_(),
            "onward_topic_id": pa.string(),
            "windows_from": TIMESTAMP,
            "windows_to": TIMESTAMP,
            "who": pa.string(),
            "why": pa.string(),
            "at": TIMESTAMP,
        }
    ),
    "reconciliations": make_schema(
        {
            "run_id": pa.string(),  # rows of one run id are one line of the history: a repeat has its id
            **_OWN,
            "at": TIMESTAMP,
            "epoch": pa.int64(),
            "result_fingerprint": pa.string(),
            "stream_version": pa.int64(),
            "verdict": pa.string(),
            "exit_code": pa.int32(),
            "cut_key": pa.string(),  # digest of what was to be compared
            "content": pa.string(),  # digest of what was found
            "unjudged": pa.string(),  # windows that it says nothing of, microseconds, JSON
            "result": pa.string(),
            "report": pa.string(),
        }
    ),
    "verifications": make_schema(
        {
            **_OWN,
            "at": TIMESTAMP,
            "epoch": pa.int64(),
            "result_fingerprint": pa.string(),
            "stream_version": pa.int64(),
            "every": pa.bool_(),  # all that the log held was looked at, not a sample
            "checks": pa.string(),  # check -> state, JSON
            "violations": pa.string(),  # [check, sentence], JSON
        }
    ),
    "differences": make_schema(
        {
            **_OWN,
            "result_fingerprint": pa.string(),
            "run_id": pa.string(),
            "at": TIMESTAMP,
            "window_start": TIMESTAMP,
            "key": pa.string(),
            "kind": pa.string(),
            "cause": pa.string(),
            "state": pa.string(),
            "detail": pa.string(),
        }
    ),
    "proofs": make_schema(
        {
            **_OWN,
            "result_fingerprint": pa.string(),
            "at": TIMESTAMP,
            "digests": pa.list_(pa.string()),  # of claims that the log bore out
        }
    ),
    "selftests": make_schema(
        {
            **_OWN,
            "result_fingerprint": pa.string(),
            "at": TIMESTAMP,
            "passed": pa.bool_(),
            "result": pa.string(),
        }
    ),
    "lateness": make_schema(
        {
            **_OWN,
            "result_fingerprint": pa.string(),
            "lateness_fingerprint": pa.string(),
            "at": TIMESTAMP,
            "result": pa.string(),
        }
    ),
    "advice": make_schema(
        {
            **_OWN,
            "result_fingerprint": pa.string(),
            "at": TIMESTAMP,
            "result": pa.string(),
        }
    ),
    "audits": make_schema(
        {
            **_OWN,
            "result_fingerprint": pa.string(),
            "stream_version": pa.int64(),
            "at": TIMESTAMP,
            "epoch": pa.int64(),
            "state": pa.string(),
            "seed": pa.int64(),
            "result": pa.string(),
        }
    ),
    "noise": make_schema(
        {
            **_OWN,
            "result_fingerprint": pa.string(),
            "at": TIMESTAMP,
            "result": pa.string(),
        }
    ),
    "swaps": make_schema(
        {
            **_OWN,
            "at": TIMESTAMP,
            "served_by": pa.string(),  # pipeline whose rows are served under this one's name
            "who": pa.string(),
            "why": pa.string(),
            "found": pa.string(),  # what a comparison of both said; or what was withdrawn
        }
    ),
}
