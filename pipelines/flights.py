"""Departures from New York's three airports in 2013, by airport, carrier and hour of scheduled departure.

Sample data with real lateness: a record reaches the log when the aircraft departs, and belongs to the hour of its
scheduled departure. `cutover produce data/nycflights13.csv.gz --pipeline flights` writes the data into the log.
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
    Sum,
    Topic,
)

flights = Pipeline(
    name="flights",
    source=Topic(
        name="flights",
        schema="""
            seq bigint NOT NULL,
            carrier string,
            flight int,
            tailnum string,
            origin string,
            dest string,
            event_time timestamp NOT NULL,
            arrival_time timestamp NOT NULL,
            dep_delay_min int,
            distance int,
            air_time int
        """,
        event_time="event_time",  # scheduled departure
        log_time="arrival_time",  # actual departure: when the record reaches the log
        time_format="seconds",
    ),
    where="origin IS NOT NULL",
    derive={"delayed": "CASE WHEN dep_delay_min > 15 THEN 1 ELSE 0 END"},
    key=("origin", "carrier"),
    window=Fixed(hours=1),
    measures={
        "flights": Count(),
        "delayed": Sum("delayed"),
        "delay": Sum("dep_delay_min"),
        "worst": Max("dep_delay_min"),
        "shortest": Min("air_time"),
        "distance": Avg("distance"),
    },
    lateness=Lateness(out_of_orderness="30 minutes", allowed="2 hours", idle_after="1 minute", max_ahead="1 hour"),
    batch=SameDefinition(),
    contract=(
        Expect(type="expect_column_values_to_not_be_null", arguments={"column": "origin"}),
        Expect(type="expect_column_values_to_be_between", arguments={"column": "flights", "min_value": 1}),
        Expect(
            type="expect_column_values_to_be_in_set",
            arguments={"column": "origin", "value_set": ["EWR", "JFK", "LGA"]},
            severity="warning",
        ),
        Expect(
            type="expect_column_values_to_be_between",
            arguments={"column": "worst", "min_value": -120, "max_value": 1440},
            severity="warning",
        ),
    ),
    policy=Policy(max_late_share=1e-3, max_unexplained=0, runs=3),
    max_rows_per_epoch=2_000,  # small, so that the replay of a year has late rows
    schedule="@hourly",
)
