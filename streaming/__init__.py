"""The low-latency path: one stateless query over a table that is the state, one fenced commit an epoch."""
