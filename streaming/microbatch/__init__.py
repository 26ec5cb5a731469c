"""One micro-batch, top to bottom: read, judged, aggregated, recorded, committed."""
