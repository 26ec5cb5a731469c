"""Windows: where in event time records are aggregated.

Each kind of window is a `WindowFn` (`window_fn`) in `kinds`.
"""
