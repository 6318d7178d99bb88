#!/usr/bin/env python3
"""Sends the figures of this machine to CloudWatch, once: a timer runs it each minute.

ROLE is gateway or server; STACK is the name of the stack, the dimension of each metric. Signed by the AWS CLI, with the
role of the machine. What does not answer sends nothing, which alarms take as a failure.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request

METRICS = "http://127.0.0.1:9465/metrics"
SAMPLE = re.compile(r"seqferry_gateway_(\w+)(?:{.*})? (\S+)")


def gateway_figures(text: str) -> dict[str, float]:
    """The figures that alarms of gateway.yaml use, of all shares together, from the metrics of a gateway."""
    found: dict[str, list[float]] = {}
    for line in text.splitlines():
        if match := SAMPLE.fullmatch(line):
            found.setdefault(match[1], []).append(float(match[2]))
    dirty = sum(found.get("dirty_bytes", []))
    room = dirty + min(found.get("free_bytes", [0.0]))
    return {
        "Healthy": min(found["healthy"]),
        "FailingFiles": sum(found.get("failing_files", [])),
        "OldestDirtySeconds": max(found.get("oldest_dirty_seconds", [0.0])),
        "CachePercentDirty": 100 * dirty / room if dirty else 0.0,
    }


def fleet_figures(lines: str) -> dict[str, float]:
    """Workers that the open work needs, and those that are alive, from the events of ``seqferry workers --json``."""
    events = [json.loads(line) for line in lines.splitlines()]
    alive = [one for one in events if one["event"] == "worker" and one["kind"] == "worker" and one["alive"]]
    return {"WantedWorkers": float(events[-1]["wanted_workers"]), "AliveWorkers": float(len(alive))}


def main() -> None:
    if os.environ["ROLE"] == "gateway":
        with urllib.request.urlopen(METRICS, timeout=10) as answer:
            figures = gateway_figures(answer.read().decode())
    else:
        command = ["/opt/seqferry/bin/seqferry", "workers", "--json"]
        ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        figures = fleet_figures(ran.stdout)
    dimensions = [{"Name": "Stack", "Value": os.environ["STACK"]}]
    data = [{"MetricName": name, "Value": value, "Dimensions": dimensions} for name, value in figures.items()]
    command = ["aws", "cloudwatch", "put-metric-data", "--namespace", "Seqferry", "--metric-data", json.dumps(data)]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
