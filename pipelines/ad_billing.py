"""Clicks on ads in videos, billed if the ad was shown in the same visit: impressions and clicks joined by session.

Sample that follows the motivation of The Dataflow Model (VLDB 2015, section 1.1): viewers watch in sessions, and some
are offline, so that their clicks reach the log hours later. `cutover demo --pipeline ad_billing` runs it.
"""

from cutover.definition import (
    Count,
    Expect,
    Join,
    Lateness,
    Max,
    Pipeline,
    Policy,
    SameDefinition,
    Sessions,
    Sum,
    Topic,
)

ad_billing = Pipeline(
    name="ad_billing",
    source=Topic(
        name="ad_impressions",
        schema="""
            id bigint NOT NULL,
            viewer string NOT NULL,
            ad string NOT NULL,
            advertiser string NOT NULL,
            bid decimal(9,4) NOT NULL,
            at timestamp NOT NULL,
            logged timestamp NOT NULL
        """,
        event_time="at",  # the viewer saw the ad
        log_time="logged",  # the device sent the record
        time_format="millis",
    ),
    join=Join(
        right=Topic(
            name="ad_clicks",
            schema="""
                id bigint NOT NULL,
                viewer string NOT NULL,
                ad string NOT NULL,
                advertiser string NOT NULL,
                price decimal(9,4) NOT NULL,
                at timestamp NOT NULL,
                logged timestamp NOT NULL
            """,
            event_time="at",
            log_time="logged",
            time_format="millis",
        ),
        on={"viewer": "viewer", "ad": "ad"},
        how="inner",
        prefix="click_",
    ),
    key=("viewer", "ad"),
    window=Sessions("30 minutes"),
    measures={"clicks": Count(), "billed": Sum("click_price"), "bid": Max("bid")},
    lateness=Lateness(out_of_orderness="10 minutes", allowed="3 hours", idle_after="1 minute", max_ahead="1 hour"),
    batch=SameDefinition(),
    contract=(
        Expect(type="expect_column_values_to_not_be_null", arguments={"column": "viewer"}),
        Expect(
            type="expect_column_values_to_be_between",
            arguments={"column": "billed", "min_value": 0, "max_value": 10},
            severity="warning",
        ),
    ),
    policy=Policy(max_late_share=5e-2, max_unexplained=0, runs=3, audit=None),  # sessions cannot be sampled
    max_rows_per_epoch=2_000,  # small, so that the replay of a week has late rows
    schedule="@hourly",
)
