"""Two jobs as a team would have them, which know nothing of Cutover, and the demonstration that adopts them.

`payments` writes the topic, `stream_job` is the streaming query, `nightly_job` the nightly recompute. `demonstration`
runs them and the commands of docs/adopt.md one after another: `make demo-adopt`.
"""
