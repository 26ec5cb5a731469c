"""Rules by which a person accepts differences that nothing explains: which, why, who answers for it, and until when."""

from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

ROWS_AT_MOST = 500
"""(window, key) rows that one rule may accept: more are no exception, and a comparison lists no more of them."""

LONGEST_RANGE = timedelta(days=366)
"""Windows of a longer range are every window, and need a key, or `all`."""


def _to_utc(value: Any) -> Any:
    """Return a date of TOML as its first moment, a time without a zone as one in UTC."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return datetime(value.year, value.month, value.day, tzinfo=UTC) if isinstance(value, date) else value


Moment = Annotated[datetime, BeforeValidator(_to_utc)]
Text = Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S")]
Volume = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class AcceptanceRule(BaseModel):
    """One rule: a difference is accepted that lies in its windows, has one of its keys, and is of its kinds.

    What is left out does not narrow it; an empty list, which nothing fits, is refused. A rule that matches more than
    `max_rows` or `max_volume` accepts nothing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    reason: Text
    owner: Text
    expires: Moment  # exclusive
    max_rows: int = Field(ge=1, le=ROWS_AT_MOST)  # (window, key)
    max_volume: dict[str, Volume] = Field(default_factory=dict, min_length=1)  # measure -> sum of |streaming - batch|
    windows_from: Moment | None = None  # window starts, inclusive
    windows_to: Moment | None = None  # exclusive
    keys: list[Text] = Field(default_factory=list, min_length=1)  # each as `cutover explain` takes it
    kinds: list[Literal["missing", "extra", "changed", "masked"]] = Field(default_factory=list, min_length=1)
    measures: list[Text] = Field(default_factory=list, min_length=1)  # a row is meant if it differs in no other
    all: bool = False  # needs neither a range nor a key

    @model_validator(mode="after")
    def check_narrow(self) -> "AcceptanceRule":
        """Refuse a range that ends before it begins, and a rule for every window of every key.

        Raises:
            ValueError: As pydantic wants it.
        """
        start, end = self.windows_from, self.windows_to
        if start is not None and end is not None and start >= end:
            msg = "`windows_from`: expected a time before `windows_to`"
            raise ValueError(msg)
        is_narrow = bool(self.keys) or (start and end and end - start <= LONGEST_RANGE)
        if not is_narrow and not self.all:
            msg = f"expected `keys`, or both ends of a range of at most {LONGEST_RANGE.days} days, or `all = true`"
            raise ValueError(msg)
        return self

    @property
    def digest(self) -> str:
        """Hash all of it: a rule that was changed is another one."""
        return sha256(self.model_dump_json().encode()).hexdigest()

    def is_expired(self, now: datetime) -> bool:
        """Return whether it accepts nothing any more."""
        return now >= self.expires

    def has_window(self, start: datetime) -> bool:
        """Return whether a window that starts then is in its range."""
        return (self.windows_from is None or self.windows_from <= start) and (
            self.windows_to is None or start < self.windows_to
        )
