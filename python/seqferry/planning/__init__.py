"""The fate of each object: copied, skipped, refused or removed, and why."""
