"""Durable epochs: `files` writes data, `committer` lists it in one commit and rejects a second driver."""
