"""Repairs: windows recomputed as a draft, reviewed, then published or discarded; a published one can be undone."""
