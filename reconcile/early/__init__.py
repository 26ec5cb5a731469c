"""What the stream showed of windows while they could still change, beside what batch made of them. No verdict."""
