"""The tamper-evident record: events, receipts, seals, the ledger and its anchors."""
