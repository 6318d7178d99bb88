"""``seqferry bench stage``: ways to bring the objects of a prefix to a task, compared on the user's own data."""
