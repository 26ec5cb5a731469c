"""Why a result differs: the causes, and the proof by refolding the log's own rows."""
