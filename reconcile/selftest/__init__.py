"""Error rates of the reconciler itself, measured with defects planted in a copy of the lake."""
