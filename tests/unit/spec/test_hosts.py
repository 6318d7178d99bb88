"""Local folders of several hosts: which host a folder belongs to, and who serves it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from seqferry.model.locations import LocalFolder, S3Location
from seqferry.model.models import ResolvedSpec, TransferSpec
from seqferry.model.workers import FOLDERS, SHARED_FOLDERS, Activity, Process, ProcessStatus
from seqferry.settings.config import Settings
from seqferry.spec import hosts
from seqferry.spec.hosts import SHARED

_POSTGRES = "postgresql://ada@db/lab"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    for name in ("own", "shared", "other"):
        (tmp_path / name / "run").mkdir(parents=True)
    return Settings.load(
        {
            "SEQFERRY_STATE_DIR": str(tmp_path / "state"),
            "SEQFERRY_DATABASE_URL": _POSTGRES,
            "SEQFERRY_HOST_NAME": "lab1",
            "SEQFERRY_FOLDERS": str(tmp_path / "own"),
            "SEQFERRY_SHARED_FOLDERS": str(tmp_path / "shared"),
        }
    )


def _spec(path: Path | str, **more: Any) -> ResolvedSpec:
    return ResolvedSpec.of(TransferSpec(S3Location("a"), LocalFolder(str(path), **more)))


@pytest.mark.parametrize(
    ("folder", "host", "root"),
    [
        ("own", "lab1", "own"),
        ("own/run", "lab1", "own"),
        ("own/run/../run", "lab1", "own"),
        ("shared/run", SHARED, "shared"),
        ("other/run", "lab1", None),
        ("ownership", "lab1", None),
    ],
)
def test_a_folder_belongs_to_this_host_or_to_all_that_have_mounted_it(
    settings: Settings, tmp_path: Path, folder: str, host: str, root: str | None
) -> None:
    target = hosts.add_hosts(_spec(tmp_path / folder), settings).target

    assert isinstance(target, LocalFolder)
    assert (target.host, target.root) == (host, None if root is None else str(tmp_path / root))


def test_a_folder_that_has_a_host_keeps_it(settings: Settings, tmp_path: Path) -> None:
    spec = _spec(tmp_path / "own", host="lab2")

    assert hosts.add_hosts(spec, settings) == spec


def test_a_database_of_one_machine_needs_no_hosts(tmp_path: Path) -> None:
    spec = _spec(tmp_path)

    assert hosts.add_hosts(spec, Settings.load({"SEQFERRY_STATE_DIR": str(tmp_path)})) is spec


@pytest.mark.parametrize(
    ("host", "folder", "named", "is_lacking"),
    [
        ("lab1", "own/run", (), False),
        ("lab1", "own", (), False),
        ("lab1", "other", (), True),
        ("lab1", "ownership", (), True),
        ("lab1", "other", ("other",), False),
        ("lab1", "shared", (), True),
        ("lab2", "own", (), True),
        ("lab2", "own", ("own",), True),
        (SHARED, "shared/run", (), False),
        (SHARED, "own", (), True),
        (SHARED, "other", ("other",), False),
    ],
)
def test_a_process_serves_folders_of_its_host_and_shared_ones(
    settings: Settings, tmp_path: Path, host: str, folder: str, named: tuple[str, ...], is_lacking: bool
) -> None:
    path = str(tmp_path / folder)

    found = hosts.find_unserved((host, path), settings, [str(tmp_path / one) for one in named])

    assert (found is not None) is is_lacking
    if found is not None:
        assert path in found
        assert (host in found) is (host != SHARED)


def _worker(host: str = "lab1", **facts: Any) -> ProcessStatus:
    activity = Activity((), None, None, 0, 0, facts=facts)
    return ProcessStatus(Process("id", "worker", host, 1, "1", "head", "1"), activity, 0.0, 0.0, True)


@pytest.mark.parametrize(
    ("folder", "fleet", "is_served"),
    [
        (("lab1", "/data/run"), [], False),
        (("lab1", "/data/run"), [_worker()], False),
        (("lab1", "/data/run"), [_worker(**{FOLDERS: ["/data"]})], True),
        (("lab1", "/data"), [_worker(**{FOLDERS: ["/data/"]})], True),
        (("lab1", "/data"), [_worker(**{FOLDERS: ["/"]})], True),
        (("lab1", "/database"), [_worker(**{FOLDERS: ["/data"]})], False),
        (("lab1", "/data"), [_worker("lab2", **{FOLDERS: ["/data"]})], False),
        (("lab1", "/data"), [_worker(**{SHARED_FOLDERS: ["/data"]})], False),
        ((SHARED, "/data"), [_worker("lab2", **{SHARED_FOLDERS: ["/data"]})], True),
        ((SHARED, "/data"), [_worker(**{FOLDERS: ["/data"]})], False),
        (("lab1", "/data"), [_worker("lab2"), _worker(**{FOLDERS: ["/x", "/data"]})], True),
    ],
)
def test_a_folder_is_served_by_a_worker_that_reports_it(
    folder: tuple[str, str], fleet: list[ProcessStatus], is_served: bool
) -> None:
    assert hosts.is_served(folder, fleet) is is_served


@pytest.mark.parametrize(
    ("place", "is_elsewhere"),
    [
        (S3Location("a"), False),
        (LocalFolder("/data"), False),
        (LocalFolder("/data", host="lab1"), False),
        (LocalFolder("/data", host=SHARED), False),
        (LocalFolder("/data", host="lab2"), True),
    ],
)
def test_a_folder_of_another_host_is_elsewhere(settings: Settings, place: Any, is_elsewhere: bool) -> None:
    assert hosts.is_elsewhere(place, settings) is is_elsewhere


def test_a_transfer_needs_each_of_its_folders_once_and_by_its_root() -> None:
    places = LocalFolder("/data/b", host="lab1", root="/data"), LocalFolder("/data/a", host="lab1", root="/data")
    spec = TransferSpec(*places)

    assert hosts.folders(spec) == [("lab1", "/data")]
    assert hosts.folder_paths(spec) == {"/data", "/data/a", "/data/b"}
    assert hosts.folders(TransferSpec(LocalFolder("/data"), S3Location("a"))) == []


@pytest.mark.parametrize(
    ("host", "folder", "is_lacking"), [(None, "own", True), ("lab1", "own/run", False), ("lab1", "other", True)]
)
def test_a_folder_without_a_host_on_record_is_not_touched(
    settings: Settings, tmp_path: Path, host: str | None, folder: str, is_lacking: bool
) -> None:
    found = hosts.find_unserved_folder(_spec(tmp_path / folder, host=host, root=str(tmp_path / "own")), settings, ())

    assert (found is not None) is is_lacking
