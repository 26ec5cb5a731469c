"""Windows: where in event time records are aggregated.

Each kind of window is a `WindowFn` and a line in `kinds`; a module holds one kind or two that share their arithmetic.
"""
