"""Windows: where in event time records are aggregated.

Each kind of window is a `WindowFn` and a line in `kinds`. `aligned` has those that are the same for all keys;
`sessions` depend on the records of a key.
"""
