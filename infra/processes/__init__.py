"""Processes of an installation.

`supervisor` keeps them running, `family` finds and stops them by identity, `ports` are their addresses, and `child`
runs a command of Cutover.
"""
