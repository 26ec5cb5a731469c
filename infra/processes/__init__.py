"""Processes of an installation.

`supervisor` keeps them running at their ports; `family` finds and stops them by identity, and runs a command of Cutover
in a child.
"""
