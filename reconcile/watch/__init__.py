"""Watching a stream: how far behind it is, and whether time moves, without a consumer group."""
