"""Results that the stream showed while windows could still change, compared with those of batch. No verdict."""
