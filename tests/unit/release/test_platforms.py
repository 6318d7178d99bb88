"""What a toolchain or a machine lacks for a platform: it is left out, and the line says what to install."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

RELEASE = Path(__file__).parents[3] / "tools/release"
MODULES = ("checks", "dist", "image_parts", "notices", "try_image", "try_wheel")


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import a module of the release tools, which import one another by their bare names."""
    monkeypatch.syspath_prepend(str(RELEASE))
    yield importlib.import_module
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("target", "advice"),
    [
        (
            "aarch64-unknown-linux-gnu",
            "(rustup target add aarch64-unknown-linux-gnu; without rustup, Debian's libstd-rust-web-dev:arm64)",
        ),
        (
            "x86_64-unknown-linux-gnu",
            "(rustup target add x86_64-unknown-linux-gnu; without rustup, Debian's libstd-rust-web-dev:amd64)",
        ),
        ("x86_64-unknown-linux-musl", "(rustup target add x86_64-unknown-linux-musl)"),
    ],
)
def test_a_platform_without_a_standard_library_is_left_out_with_advice(
    target: str, advice: str, release: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    rustc = tmp_path / "bin/rustc"
    rustc.parent.mkdir()
    rustc.write_text(f"#!/bin/sh\necho {tmp_path}\n")
    rustc.chmod(0o755)
    monkeypatch.setenv("PATH", f"{rustc.parent}{os.pathsep}{os.environ['PATH']}")
    dist = release("dist")

    built = dist.build_wheels(tmp_path, [one for one in dist.PLATFORMS if one.target == target])

    assert built == []
    assert capsys.readouterr().out == (
        f"dist: left out: {target}; this Rust toolchain has no standard library for it {advice}\n"
    )


def test_an_image_of_another_architecture_is_not_started_without_its_emulator(
    release: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    other = release("image_parts").Architecture("riscv64", "riscv64")

    said = release("try_image").try_where_possible(other, tmp_path, "0.1.0")

    assert said == (
        f"not started: riscv64; this machine is {os.uname().machine}, "
        "and qemu-riscv64-static is not here (Debian: qemu-user-static)"
    )
