"""What a run writes: staged results, checked by the contract, published in one order."""
