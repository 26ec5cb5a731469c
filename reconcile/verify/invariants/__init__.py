"""Invariants N1 to N9, each a pure check over facts.

`epochs` has those of records and epochs, `published_results` those of results and tables. N7, that a fault happened, is
checked by the tests of faults.
"""
