"""Dimensions: tables that records are joined with.

`dimension` opens one at a version, `load` writes the next version unless lost rows require a confirmation, and
`joined_versions` joins records with the versions that were recorded for them.
"""
