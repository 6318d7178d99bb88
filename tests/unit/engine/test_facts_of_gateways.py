"""The state of a gateway in its row among the workers: it names few files, however many fail."""

from __future__ import annotations

import json
from typing import Any

from seqferry.engine import gateways
from seqferry.model.workers import IS_DRAINING, SHARES, WAITING


def _share(name: str, failing: int, text: str) -> dict[str, Any]:
    files = [{"path": text, "cause": text, "attempts": 1, "seconds": 1.0} for _ in range(failing)]
    writing = dict.fromkeys(gateways.DETAILS, 0) | {
        "dirty_files": failing,
        "dirty_bytes": 1,
        "failing_files": failing,
        "conflicts": 0,
        "window_is_open": True,
        "oldest": {"path": "a", "age_seconds": 12.34},
        "failing": files,
        "held": [],
        "renames": [],
    }
    return {"share": name, "source": f"s3://b/{name}/", "read_bytes": 1, "fetched_bytes": 2, "writing": writing}


def test_the_row_of_a_gateway_has_a_bound_and_keeps_all_numbers() -> None:
    read_only = {"share": "r", "source": "s3://b/r/", "read_bytes": 5, "fetched_bytes": 5, "writing": None}
    shares = [_share(f"s{number}", 100, "é" * 5000) for number in range(50)]

    facts = gateways.facts_of({"is_draining": True, "shares": [_share("few", 2, "short"), read_only, *shares]})

    assert facts[IS_DRAINING]
    assert facts[WAITING]["few"]["oldest_dirty_seconds"] == 12.3
    assert [one["path"] for one in facts[SHARES]["few"]["failing"]] == ["short", "short"]
    assert facts[SHARES]["r"] == {"source": "s3://b/r/", "read_bytes": 5, "fetched_bytes": 5}
    assert len(facts[SHARES]["s0"]["failing"]) == 5
    assert facts[SHARES]["s0"]["failing"][0]["path"] == "é" * 1024 + "…"
    assert facts[SHARES]["s49"]["failing"] == []
    assert facts[WAITING]["s49"]["failing_files"] == 100
    assert len(json.dumps(facts)) < 64 * 1024 + 50 * 1024
