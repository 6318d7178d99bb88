"""``make chaos-shares``: shares that clients write to, killed while their storage fails, held against a model."""
