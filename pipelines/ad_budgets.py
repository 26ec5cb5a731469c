"""Daily spending of advertisers on clicks, in New York's time zone, with their budgets.

Second part of the sample of ads in videos, see `pipelines/ad_billing.py`. The budget is looked up in a dimension:
`cutover dimension load advertisers advertisers.csv --key advertiser --schema "advertiser string, budget bigint"`.
"""

from cutover.definition import (
    Count,
    Daily,
    Expect,
    Lateness,
    Lookup,
    Max,
    Pipeline,
    Policy,
    SameDefinition,
    Sum,
    Topic,
)

ad_budgets = Pipeline(
    name="ad_budgets",
    source=Topic(
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
    lookups={
        "advertisers": Lookup(table="advertisers", on={"advertiser": "advertiser"}, columns={"budget": "bigint"}),
    },
    key=("advertiser",),
    window=Daily(zone="America/New_York"),
    measures={"clicks": Count(), "spent": Sum("price"), "budget": Max("budget")},
    lateness=Lateness(out_of_orderness="10 minutes", allowed="3 hours", idle_after="1 minute", max_ahead="1 hour"),
    batch=SameDefinition(),
    contract=(Expect(type="expect_column_values_to_not_be_null", arguments={"column": "budget"}),),
    policy=Policy(max_late_share=5e-2, runs=3),
    max_rows_per_epoch=1_000,  # small, so that the replay of a week has late rows
    schedule="@daily",
)
