"""What makes an epoch durable: its files, the one commit, and the fence that refuses a second driver."""
