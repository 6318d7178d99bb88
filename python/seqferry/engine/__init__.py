"""The Rust engine as Python sees it: jobs, listings and single requests."""
