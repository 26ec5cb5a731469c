"""Transfers between bank accounts: total amount from each payer to each payee.

Sample of internal consistency: the balance of an account is the sum of its incoming minus its outgoing transfers. At
every epoch all balances add up to zero, because a transfer is completely in an epoch or not at all.
`.venv/bin/python -m cutover.samples.transfers > transfers.jsonl`, then
`cutover produce transfers.jsonl --pipeline transfers`.
"""

from cutover.definition import Count, Expect, Global, Lateness, Pipeline, Policy, SameDefinition, Sum, Topic

BALANCES = """
    SELECT account, CAST(sum(amount) AS DECIMAL(38, 2)) AS balance FROM (
        SELECT payee AS account, amount FROM streaming
        UNION ALL SELECT payer, -amount FROM streaming
    ) GROUP BY account
"""
"""Query for `cutover sql transfers "..." --epoch N`: the balance of each account."""

transfers = Pipeline(
    name="transfers",
    source=Topic(
        name="transfers",
        schema="""
            id bigint NOT NULL,
            payer string NOT NULL,
            payee string NOT NULL,
            amount decimal(18,2) NOT NULL,
            at timestamp NOT NULL,
            logged timestamp NOT NULL
        """,
        event_time="at",
        log_time="logged",
        time_format="millis",
    ),
    where="payer <> payee",
    key=("payer", "payee"),
    window=Global(),
    measures={"transfers": Count(), "amount": Sum("amount")},
    lateness=Lateness(out_of_orderness="30 seconds", allowed="0 seconds"),
    batch=SameDefinition(),
    contract=(Expect(type="expect_column_values_to_be_between", arguments={"column": "amount", "min_value": 0.01}),),
    policy=Policy(max_late_share=0.0, runs=3, audit=None),  # a single global window cannot be sampled
    schedule="@daily",
)
