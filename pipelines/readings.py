"""Temperatures of devices, by device and ten minutes; records that a gateway sends twice are counted once.

Sample of record ids and doubles: gateways resend unacknowledged records, and send records hours later after an outage.
`.venv/bin/python -m cutover.samples.readings > readings.jsonl`, then
`cutover produce readings.jsonl --pipeline readings`.
"""

from cutover.definition import (
    Avg,
    Count,
    Expect,
    Fixed,
    Lateness,
    Max,
    Min,
    Pipeline,
    Policy,
    SameDefinition,
    Stddev,
    Sum,
    Topic,
)

readings = Pipeline(
    name="readings",
    source=Topic(
        name="readings",
        schema="""
            id bigint NOT NULL,
            device string NOT NULL,
            celsius double NOT NULL,
            volts double,
            at timestamp NOT NULL,
            logged timestamp NOT NULL
        """,
        event_time="at",  # the device measured
        log_time="logged",  # its gateway sent the record
        time_format="millis",
        record_id="id",
    ),
    key=("device",),
    window=Fixed(minutes=10),
    measures={
        "readings": Count(),
        "total": Sum("celsius"),
        "mean": Avg("celsius"),
        "spread": Stddev("celsius"),
        "coldest": Min("celsius"),
        "warmest": Max("celsius"),
        "volts": Min("volts"),
    },
    lateness=Lateness(out_of_orderness="5 minutes", allowed="30 minutes", idle_after="1 minute", max_ahead="1 hour"),
    batch=SameDefinition(),
    contract=(
        Expect(type="expect_column_values_to_not_be_null", arguments={"column": "mean"}),
        Expect(
            type="expect_column_values_to_be_between",
            arguments={"column": "mean", "min_value": -60, "max_value": 60},
            severity="warning",
        ),
    ),
    policy=Policy(max_late_share=5e-2, max_unexplained=0, runs=3),
    max_rows_per_epoch=1_000,  # small, so that the replay of days has late rows
    schedule="@hourly",
)
