"""Proof of what was done: anchors, audits, reports, and the target compared with the receipt."""
