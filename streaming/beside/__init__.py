"""A version of a stream, or a changed definition, beside the one that serves: filled, compared, let serve."""
