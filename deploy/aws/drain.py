#!/usr/bin/env python3
"""Lets the worker of this machine end its batches before the Auto Scaling group GROUP ends the machine.

The group waits at its lifecycle hook ``drain``. A machine that is ended in another way suspends its batches instead,
as at each SIGTERM.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request

METADATA = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254").rstrip("/")
SEQFERRY = "/opt/seqferry/bin/seqferry"
SECONDS = 5.0


def ask(path: str, method: str, headers: dict[str, str]) -> str:
    request = urllib.request.Request(f"{METADATA}/latest/{path}", headers=headers, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode().strip()


def read(name: str) -> str:
    token = ask("api/token", "PUT", {"X-aws-ec2-metadata-token-ttl-seconds": "60"})
    return ask(f"meta-data/{name}", "GET", {"X-aws-ec2-metadata-token": token})


def is_ending() -> bool:
    try:
        return read("autoscaling/target-lifecycle-state") == "Terminated"
    except OSError:
        return False  # asked again


def workers_here() -> list[str]:
    """Ids of the workers that are alive on this machine."""
    ran = subprocess.run([SEQFERRY, "workers", "--json"], check=True, stdout=subprocess.PIPE, text=True)
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    found = [one for one in events if one["event"] == "worker" and one["kind"] == "worker" and one["alive"]]
    return [one["id"] for one in found if one["host"] == socket.gethostname()]


def main() -> None:
    while not is_ending():
        time.sleep(SECONDS)
    for worker in workers_here():
        print(f"{worker} is drained: its group ends the machine.", flush=True)
        subprocess.run([SEQFERRY, "workers", "drain", worker, "--wait"], check=False)
    hook = ["--lifecycle-hook-name", "drain", "--auto-scaling-group-name", os.environ["GROUP"]]
    done = ["--lifecycle-action-result", "CONTINUE", "--instance-id", read("instance-id")]
    subprocess.run(["aws", "autoscaling", "complete-lifecycle-action", *hook, *done], check=True)


if __name__ == "__main__":
    main()
