"""The demonstration's other input: ads in videos, made up from a seed, in two topics and a dimension."""

from pathlib import Path

from cutover.infra.demo.send import run, sent_runs
from cutover.samples import ad_billing
from cutover.settings import Settings

VIEWERS, DAYS, SEED = 400, 4, 1
BILLING, BUDGETS = "ad_billing", "ad_budgets"
CLICKS = "ad_clicks"


def send(settings: Settings) -> None:
    """Write the sample's files once, load the dimension, and send what the topics do not hold yet.

    Raises:
        DefinitionError: A command refused; it has said why.
        LogError: The broker does not answer.
    """
    folder = settings.home.resolve() / "samples" / BILLING
    if not folder.is_dir():
        ad_billing.write(folder, ad_billing.sample(viewers=VIEWERS, days=DAYS, seed=SEED))
    load(folder)
    for topic, file in (("ad_impressions", folder / "impressions.jsonl"), (CLICKS, folder / "clicks.jsonl")):
        if not any(entry.finished for entry in sent_runs(settings, topic, file)):
            run("produce", str(file), "--pipeline", BILLING, "--topic", topic)


def load(folder: Path) -> None:
    """Make the dimension of advertisers anew."""
    file = str(folder / "advertisers.csv")
    run("dimension", "load", "advertisers", file, "--key", "advertiser", "--schema", ad_billing.DIMENSION)
