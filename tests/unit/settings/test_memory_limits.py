"""The memory that a process may take, and what fits in it."""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from seqferry.settings import memory_limits
from seqferry.settings.memory_limits import (
    LEAST_BUFFERS,
    LEAST_REQUESTS,
    PROCESS,
    REQUEST,
    AvailableMemory,
    MemoryPlan,
    find_available,
    plan_memory,
)

MIB = 1 << 20
GIB = 1 << 30


class Machine:
    """A root folder with the files that say what limits a process."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.put("proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB\n")
        self.put("proc/self/status", "Name:\tpython\nVmSize:\t 90000 kB\nVmRSS:\t 61440 kB\nVmData:\t 40000 kB\n")

    def put(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def group(self, folder: str, **facts: object) -> None:
        for name, value in facts.items():
            self.put(f"{folder}/memory.{name}", f"{value}\n")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def version_2(machine: Machine, own: str, *, shown: str = "/") -> None:
    machine.put("proc/self/cgroup", f"0::{own}\n")
    machine.put("proc/self/mountinfo", f"30 23 0:27 {shown} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n")


def version_1(machine: Machine, own: str, *, shown: str = "/") -> None:
    machine.put("proc/self/cgroup", f"5:cpu,cpuacct:/elsewhere\n4:memory:{own}\n0::/\n")
    machine.put(
        "proc/self/mountinfo",
        "31 23 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        f"35 31 0:32 {shown} /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n",
    )


def found(machine: Machine) -> tuple[int, int]:
    there = find_available(machine.root)
    assert there is not None
    return there.free, there.limit


def test_the_memory_of_the_machine_counts(machine: Machine) -> None:
    assert found(machine) == (32 * GIB, 64 * GIB)


def test_nothing_is_known_of_a_system_that_says_nothing(tmp_path: Path) -> None:
    assert find_available(tmp_path) is None
    assert plan_memory(None, resident=0, memory=256 * MIB, requests=10_000) == MemoryPlan(256 * MIB, 10_000, 16_384)


@pytest.mark.parametrize(
    ("own", "shown"),
    [("/", "/"), ("/../..", "/"), ("/docker/4711", "/docker/4711"), ("/kubepods/pod1/c1", "/elsewhere")],
    ids=["namespace", "outside of the namespace", "container's own part", "another part"],
)
def test_a_container_is_limited_by_the_group_that_it_sees(machine: Machine, own: str, shown: str) -> None:
    version_2(machine, own, shown=shown)
    machine.group("sys/fs/cgroup", max=512 * MIB, current=100 * MIB, stat="inactive_file 0\nactive_file 0")

    assert found(machine) == (412 * MIB, 512 * MIB)


def test_a_container_of_version_1_is_limited_too(machine: Machine) -> None:
    version_1(machine, "/docker/4711", shown="/docker/4711")
    machine.group(
        "sys/fs/cgroup/memory", limit_in_bytes=512 * MIB, usage_in_bytes=100 * MIB, stat="total_inactive_file 0"
    )

    assert found(machine) == (412 * MIB, 512 * MIB)


def test_the_least_of_nested_groups_counts(machine: Machine) -> None:
    version_2(machine, "/system.slice/job.scope/step")
    machine.group("sys/fs/cgroup/system.slice/job.scope/step", max="max", high="max", current=60 * MIB, stat="")
    machine.group("sys/fs/cgroup/system.slice/job.scope", max=GIB, current=200 * MIB, stat="")
    machine.group("sys/fs/cgroup/system.slice", max=4 * GIB, current=4 * GIB - 300 * MIB, stat="")

    # The outermost group has the largest limit and the least room.
    assert found(machine) == (300 * MIB, 4 * GIB)


def test_version_1_knows_limits_of_groups_that_are_not_shown(machine: Machine) -> None:
    version_1(machine, "/slurm/job_7/step_0", shown="/slurm/job_7/step_0")
    machine.group(
        "sys/fs/cgroup/memory",
        limit_in_bytes=9223372036854771712,
        usage_in_bytes=80 * MIB,
        stat=f"cache 5\nhierarchical_memory_limit {600 * MIB}\nhierarchical_memsw_limit 9223372036854771712",
    )

    assert found(machine) == (520 * MIB, 600 * MIB)


def test_groups_without_a_limit_do_not_count(machine: Machine) -> None:
    version_1(machine, "/")
    machine.group("sys/fs/cgroup/memory", limit_in_bytes=9223372036854771712, usage_in_bytes=80 * MIB, stat="")

    assert found(machine) == (32 * GIB, 64 * GIB)


def test_the_limit_that_slows_a_group_down_counts(machine: Machine) -> None:
    version_2(machine, "/a")
    machine.group("sys/fs/cgroup/a", max=GIB, high=512 * MIB, current=12 * MIB, stat="")

    assert found(machine) == (500 * MIB, 512 * MIB)


def test_pages_of_files_are_free(machine: Machine) -> None:
    version_2(machine, "/a")
    stat = f"anon 5\nfile {400 * MIB}\ninactive_file {300 * MIB}\nactive_file {100 * MIB}"
    machine.group("sys/fs/cgroup/a", max=512 * MIB, current=500 * MIB, stat=stat)

    assert found(machine) == (412 * MIB, 512 * MIB)


def test_a_mount_point_with_a_space_is_read(machine: Machine) -> None:
    machine.put("proc/self/cgroup", "0::/a\n")
    machine.put("proc/self/mountinfo", "30 23 0:27 / /my\\040groups rw - cgroup2 cgroup2 rw\n")
    machine.group("my groups/a", max=512 * MIB, current=0, stat="")

    assert found(machine) == (512 * MIB, 512 * MIB)


@pytest.mark.parametrize(
    ("proc", "text"), [("cgroup", "\n0::\nx\n4:memory\n"), ("mountinfo", "\n - \n1 2 3 - cgroup2\n"), ("status", "x")]
)
def test_files_of_another_form_are_no_limit(machine: Machine, proc: str, text: str) -> None:
    version_2(machine, "/a")
    machine.put(f"proc/self/{proc}", text)

    assert found(machine) == (32 * GIB, 64 * GIB)


@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_ulimit_counts(limit: str) -> None:
    script = (
        "import json, resource; from seqferry.settings.memory_limits import find_available\n"
        f"resource.setrlimit(resource.{limit}, ({700 * MIB}, {700 * MIB}))\n"
        "print(json.dumps(find_available()))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    free, most, cause, counts_addresses = json.loads(ended.stdout)
    assert (most, counts_addresses) == (700 * MIB, True)
    assert cause == ("ulimit -v" if limit == "RLIMIT_AS" else "ulimit -d")
    assert 300 * MIB < free < 700 * MIB


def test_the_limits_of_this_process_are_read() -> None:
    there = find_available()

    assert there is not None
    assert 0 <= there.free <= there.limit
    assert memory_limits.resident() * 2 > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 9


# --- what fits --------------------------------------------------------------------------------------------------------


def in_room(mebibytes: int, *, counts_addresses: bool = False) -> AvailableMemory:
    return AvailableMemory(mebibytes * MIB, mebibytes * MIB, "a limit", counts_addresses)


@pytest.mark.parametrize("mebibytes", [192, 256, 384, 512, 768, 1024, 2048])
@pytest.mark.parametrize("memory", [96 * MIB, 256 * MIB, GIB])
@pytest.mark.parametrize("requests", [1, 256, 10_000])
def test_all_that_is_taken_fits(mebibytes: int, memory: int, requests: int) -> None:
    fitting = plan_memory(in_room(mebibytes), resident=0, memory=memory, requests=requests)

    assert PROCESS + fitting.memory + fitting.requests * REQUEST <= mebibytes * MIB
    assert fitting.memory <= memory
    assert fitting.requests <= min(requests, fitting.most_requests)


def test_the_machine_of_the_paper_has_512_mebibytes() -> None:
    fitting = plan_memory(in_room(512 - 60), resident=60 * MIB, memory=96 * MIB, requests=10_000)

    assert fitting.memory == 96 * MIB
    assert 3_000 < fitting.requests < 4_500


def test_few_requests_leave_their_memory_to_the_buffers() -> None:
    # As for a mount.
    fitting = plan_memory(in_room(512), resident=0, memory=512 * MIB, requests=256)

    assert (fitting.memory, fitting.requests) == (512 * MIB - PROCESS - 256 * REQUEST, 256)


def test_small_buffers_allow_few_requests_in_flight() -> None:
    for room in (None, in_room(4096)):
        fitting = plan_memory(room, resident=0, memory=16 * MIB, requests=10_000)

        assert fitting == MemoryPlan(16 * MIB, 1024, 1024)


def test_a_large_machine_gives_all_that_is_asked_for() -> None:
    fitting = plan_memory(in_room(4096), resident=0, memory=256 * MIB, requests=10_000)

    assert (fitting.memory, fitting.requests) == (256 * MIB, 10_000)


def test_no_room_is_left_is_no_reason_to_stop() -> None:
    fitting = plan_memory(in_room(0), resident=0, memory=256 * MIB, requests=10_000)

    assert (fitting.memory, fitting.requests) == (LEAST_BUFFERS, LEAST_REQUESTS)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="arenas are those of glibc")
def test_threads_share_what_malloc_keeps() -> None:
    script = """
import ctypes, sys, tempfile, threading
from seqferry.settings.memory_limits import share_arena

c = ctypes.CDLL(None)
if sys.argv[1] == "shared":
    share_arena()
barrier = threading.Barrier(5)

def work():
    held = [bytearray(50_000) for _ in range(20)]
    barrier.wait()

threads = [threading.Thread(target=work) for _ in range(4)]
for one in threads:
    one.start()
barrier.wait()
for one in threads:
    one.join()
c.fopen.restype = ctypes.c_void_p
with tempfile.NamedTemporaryFile() as report:
    stream = ctypes.c_void_p(c.fopen(report.name.encode(), b"w"))
    c.malloc_info(0, stream)
    c.fclose(stream)
    print(report.read().count(b"<heap nr="))
"""

    def arenas(how: str) -> int:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
        command = [sys.executable, "-c", script, how]
        return int(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)

    assert arenas("own") > 1
    assert arenas("shared") == 1
