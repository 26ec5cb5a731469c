"""Commands about what comparisons left behind: the history, the differences, and what people say of them."""
