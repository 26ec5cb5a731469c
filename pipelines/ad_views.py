"""Yahoo Streaming Benchmark: views of ads, counted by campaign in windows of ten seconds.

Only events of the type `view` are counted; the campaign of an ad is looked up. `samples/README.md` describes how to run
it, `samples/ad_views.py` generates the events and the ads.
"""

from cutover.definition import Count, Expect, Fixed, Lateness, Lookup, Pipeline, Topic

ad_views = Pipeline(
    name="ad_views",
    source=Topic(
        name="ad_events",
        schema="""
            user_id string, page_id string, ad_id string NOT NULL, ad_type string, event_type string NOT NULL,
            event_time timestamp NOT NULL, ip_address string
        """,
        event_time="event_time",
        log_time="event_time",
        time_format="millis",
    ),
    # cutover dimension load ads ads.csv --key ad_id
    lookups={"ads": Lookup(table="ads", on={"ad_id": "ad_id"}, columns={"campaign_id": "string"})},
    # The filter of the benchmark; ads without a campaign are dropped, as in its join.
    where="event_type = 'view' AND campaign_id IS NOT NULL",
    key=("campaign_id",),
    window=Fixed(seconds=10),
    measures={"views": Count()},
    lateness=Lateness(out_of_orderness="1 minute", allowed="1 minute", idle_after="1 minute", max_ahead="1 hour"),
    contract=(
        Expect(type="expect_column_values_to_be_between", arguments={"column": "views", "min_value": 1}),
        Expect(type="expect_column_values_to_not_be_null", arguments={"column": "campaign_id"}),
    ),
)
