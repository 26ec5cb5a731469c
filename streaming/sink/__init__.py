"""Durable epochs: their files, the one commit, and the fence that rejects a second driver."""
