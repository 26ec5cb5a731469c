"""How many different values there are, estimated from the smallest of their hashes.

Of n different values hashed to [0, 1) the k-th smallest hash lies near k / n. The k smallest hashes of a union are
those of the parts' k smallest, so the estimate is the same for any split; an estimator that remembers the order of
arrival (HLL as Spark has it) is not. This is a Theta sketch that rebuilds at each step.

Source:
    Bar-Yossef et al., Counting Distinct Elements in a Data Stream, RANDOM 2002, algorithm 2 (k minimum values);
    Dasgupta, Lang, Rhodes, Thaler, A Framework for Estimating Stream Expression Cardinalities, ICDT 2016 (Theta).
"""

from dataclasses import dataclass

from cutover.definition.measures.states import Finish, StateColumn

HASHES = 2**64
LOWEST = 2**63
"""Added to a hash, a signed number, to count from 0."""

SIGMAS = 5.0
"""Standard errors by which an estimate may differ from a true number: once in two million comparisons."""


@dataclass(frozen=True, slots=True)
class ApproxDistinct:
    """Number of different values, nulls left out: exact below k, then within 1 / sqrt(k) in two of three cases."""

    expression: str
    k: int = 4096

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:  # noqa: ARG002 -- every measure's signature
        """Return `<name>__hashes`: the k smallest different hashes (xxHash64, seed 42), ascending."""
        hashes = f"collect_set(IF(({self.expression}) IS NULL, NULL, xxhash64({self.expression})))"
        create = f"slice(sort_array({hashes}), 1, {self.k})"
        return (
            StateColumn(column=f"{name}__hashes", type="array<bigint>", create=create, merge="smallest", most=self.k),
        )

    def finish(self, name: str, value_type: str | None) -> Finish:  # noqa: ARG002 -- every measure's signature
        """Return the estimate, a bigint: (k - 1) / theta, theta being the k-th smallest hash as a share of all."""
        known = f"coalesce(len({name}__hashes), 0)"
        share = f"({name}__hashes[{self.k}]::HUGEINT + {LOWEST})"
        estimate = f"({(self.k - 1) * HASHES}::HUGEINT // {share})"
        return Finish(
            sql=f"CAST(CASE WHEN {known} < {self.k} THEN {known} ELSE {estimate} END AS BIGINT)", type="bigint"
        )

    def tolerance(self, value_type: str | None, *, same: bool) -> float | None:  # noqa: ARG002 -- every measure's signature
        """Return None between states of one definition, the bound of the estimate against a true number."""
        return None if same else SIGMAS / self.k**0.5
