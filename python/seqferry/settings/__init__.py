"""Settings of this installation: configuration, policy, tokens, channels of notices, keys and limits."""
