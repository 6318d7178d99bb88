"""The process that serves a mount: however it is made to end, no dead mount stays behind."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from seqferry.cli.mount_process import ending_signals
from support import proxy as faults
from support.mounts import Mounter, gone
from support.processes import RunningProcess, run, seqferry
from support.proxy import Proxy
from support.servers import S3Server
from support.sim import Simulator
from support.waiting import eventually

VENDOR = "vendor=keys=run/f{i:05};count=3;size=1KiB"


# A closed terminal, and one without a name; that the others are treated alike is in the next test.
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGRTMIN + 1])
def test_a_signal_that_ends_processes_unmounts(
    make_simulator: Callable[..., Simulator], mounter: Mounter, number: int
) -> None:
    simulator = make_simulator("--instant", "--bucket", VENDOR)
    mount, serving = mounter.foreground(simulator, "s3://vendor")

    serving.signal(number)  # type: ignore[arg-type]

    assert serving.wait() == 0
    assert not mount.is_mounted
    assert list(mount.directory.iterdir()) == []


def test_all_signals_are_known_and_faults_are_left_alone() -> None:
    # nohup, and a shell in the background, have these ignored in what runs the tests.
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGHUP, signal.SIGQUIT)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        found = set(ending_signals())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

    assert {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2} <= found
    assert {signal.SIGALRM, signal.SIGXCPU, signal.SIGIO, signal.SIGABRT, signal.SIGRTMIN, signal.SIGRTMAX} <= found
    assert not found & {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGTSTP, signal.SIGSEGV, signal.SIGWINCH}
    # Python ignores it, so that a reader who goes is an error of a write.
    assert signal.SIGPIPE not in found


def test_nohup_keeps_a_mount(make_simulator: Callable[..., Simulator], mounter: Mounter) -> None:
    simulator = make_simulator("--instant", "--bucket", VENDOR)
    mount = mounter.adopt(simulator, mounter.folder / "mnt")
    (command := [str(seqferry()), "mount", "s3://vendor", str(mount.directory), "--foreground"])
    with RunningProcess(["nohup", *command], environment=mount.environment) as serving:
        serving.wait_for_output("is mounted at")
        serving.signal(signal.SIGHUP)
        serving.signal(signal.SIGHUP)
        assert len((mount.directory / "run" / "f00001").read_bytes()) == 1024
        assert mount.is_mounted
        serving.signal(signal.SIGTERM)
        assert serving.wait() == 0
    assert not mount.is_mounted


def test_nothing_is_mounted_for_a_command_that_is_gone(
    seaweedfs: S3Server, make_bucket: Callable[..., str], make_proxy: Callable[[S3Server], Proxy], mounter: Mounter
) -> None:
    bucket = make_bucket(seaweedfs)
    proxy = make_proxy(seaweedfs)
    mount = mounter.adopt(proxy.server, mounter.folder / "mnt")
    with faults.held(proxy, ["ListObjectsV2"]):
        command = [seqferry(), "mount", f"s3://{bucket}", mount.directory]
        with RunningProcess(command, environment=mount.environment) as waiting:
            proxy.wait_requested("ListObjectsV2", 1)
            # The command alone: the process that serves has a session of its own.
            waiting.signal(signal.SIGKILL)
            waiting.wait()

    eventually(lambda: not mount.serving, what="the serving process to end")
    assert not mount.is_mounted


def test_a_mount_needs_no_state_folder(make_simulator: Callable[..., Simulator], mounter: Mounter) -> None:
    simulator = make_simulator("--instant", "--bucket", VENDOR)
    mount = mounter.adopt(simulator, mounter.folder / "mnt")
    (temporary := mounter.folder / "temporary").mkdir()
    home = {"HOME": "/proc", "XDG_STATE_HOME": "", "TMPDIR": str(temporary)}
    environment = {**mount.environment, "SEQFERRY_STATE_DIR": "", **home}

    run([seqferry(), "mount", "s3://vendor", mount.directory], environment=environment)

    assert len((mount.directory / "run" / "f00001").read_bytes()) == 1024
    assert [file.name for file in temporary.glob("*/*")] == ["mount.log"]
    run([seqferry(), "umount", mount.directory], environment=environment)
    gone(mount)
    # A folder that was named is meant.
    named = [seqferry(), "mount", "s3://vendor", mount.directory, "--state-dir", "/proc/state"]
    assert "/proc/state" in run(named, environment=environment, expect=1).stderr
