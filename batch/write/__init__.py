"""Outputs of a run: staged results, checked by the contract, published in one order."""
