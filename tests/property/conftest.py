"""Profiles of Hypothesis, before any module asks which one is in force."""

from tests.support.depth import register

register()
