"""Commands of an installation.

They are `installation`, `demo` and `drill`; `screens` formats the output of `cutover status` and `cutover doctor`.
"""
