"""Output for people and scripts: progress, summaries, previews and texts."""
