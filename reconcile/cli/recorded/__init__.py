"""Commands about stored results: their history, unexplained differences and what people say of them, and the cost."""
