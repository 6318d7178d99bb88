"""Proof of what was done: anchors, audits, reports, and the target held against the receipt."""
