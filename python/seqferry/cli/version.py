"""``seqferry --version``."""

from __future__ import annotations


def show() -> None:
    """Print the version of the installed package."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        print(f"seqferry {version('seqferry')}")
    except PackageNotFoundError:
        print("seqferry (not installed)")
