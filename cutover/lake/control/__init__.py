"""The installation's own history: versions, stages, pins, losses; tables that are only appended to."""
