"""The verbs that every door calls."""
