"""Cost of an epoch, and throughput and latency of a driver."""
