"""The plugin of the wheel is unpacked where Nextflow looks for it, as a whole or not at all."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from seqferry.cli.app import run
from seqferry.model.errors import ConfigError, UsageError
from seqferry.nextflow import plugin


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "plugin.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("classes/META-INF/MANIFEST.MF", "Plugin-Id: nf-seqferry\n")
        packed.writestr("LICENSE", "text")
    return path


def below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_it_is_unpacked_and_replaces_what_was_there(tmp_path: Path, archive: Path) -> None:
    plugins = tmp_path / "not yet" / "plugins"

    made = plugin.install(plugins, "1.2.3", archive)
    (made / "of an older build").touch()
    again = plugin.install(plugins, "1.2.3", archive)

    assert made == again == plugins / "nf-seqferry-1.2.3"
    assert below(plugins) == ["nf-seqferry-1.2.3/LICENSE", "nf-seqferry-1.2.3/classes/META-INF/MANIFEST.MF"]
    assert [path.name for path in plugins.iterdir()] == ["nf-seqferry-1.2.3"]


def test_other_users_may_read_it_whatever_the_umask_of_its_installer(tmp_path: Path, archive: Path) -> None:
    before = os.umask(0o077)
    try:
        made = plugin.install(tmp_path, "1", archive)
    finally:
        os.umask(before)

    modes = {path.is_dir(): path.stat().st_mode & 0o777 for path in (made, *made.rglob("*"))}
    assert modes == {True: 0o755, False: 0o644}


def test_a_damaged_or_missing_archive_changes_nothing(tmp_path: Path, archive: Path) -> None:
    made = plugin.install(tmp_path / "plugins", "1", archive)
    archive.write_bytes(archive.read_bytes()[:50])

    with pytest.raises(ConfigError, match="damaged"):
        plugin.install(tmp_path / "plugins", "1", archive)
    archive.unlink()
    with pytest.raises(ConfigError, match="make nextflow-plugin"):
        plugin.install(tmp_path / "plugins", "1", archive)

    assert [path.name for path in (tmp_path / "plugins").iterdir()] == [made.name]
    assert len(below(made)) == 2


@pytest.mark.parametrize("kind", ["file in place of the folder", "file in place of the plugin", "link"])
def test_a_place_that_is_no_folder_is_refused_and_kept(kind: str, tmp_path: Path, archive: Path) -> None:
    plugins = tmp_path / "plugins"
    if kind == "file in place of the folder":
        plugins.write_text("kept")
    else:
        plugins.mkdir()
        place = plugins / "nf-seqferry-1"
        if kind == "link":
            place.symlink_to(tmp_path)
        else:
            place.write_text("kept")
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(UsageError, match="cannot be written"):
        plugin.install(plugins, "1", archive)

    assert sorted(tmp_path.rglob("*")) == before


def test_the_folder_is_that_of_nextflow() -> None:
    assert plugin.default_folder({"NXF_PLUGINS_DIR": "/p", "NXF_HOME": "/h"}) == Path("/p")
    assert plugin.default_folder({"NXF_HOME": "/h"}) == Path("/h/plugins")
    assert plugin.default_folder({"NXF_PLUGINS_DIR": "", "NXF_HOME": ""}) == Path.home() / ".nextflow" / "plugins"


def test_the_command_says_where_it_is_and_what_to_configure(
    tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plugin.install, "__defaults__", (archive,))
    monkeypatch.setenv("NXF_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NXF_PLUGINS_DIR", raising=False)

    assert run(["nextflow", "install-plugin"]) == 0
    out, _ = capsys.readouterr()
    assert run(["nextflow", "install-plugin", "--plugins-dir", os.devnull]) == 2
    _, err = capsys.readouterr()

    folder, config = out.splitlines()
    assert Path(folder).parent == tmp_path / "home" / "plugins"
    assert config == f"nextflow.config: plugins {{ id 'nf-seqferry@{Path(folder).name.removeprefix('nf-seqferry-')}' }}"
    assert len(err.splitlines()) == 1
