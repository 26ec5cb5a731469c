"""Which out-of-orderness and allowed lateness would have been right, from the log and the epochs that read it."""
