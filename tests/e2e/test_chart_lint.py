"""The Helm chart under helm and kubeconform. What it renders is tested without them (``unit/test_chart.py``)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support.run import ROOT, TOOLS


def test_helm_and_kubeconform_accept_the_chart_and_render_what_is_recorded() -> None:
    if not all((TOOLS / name).exists() for name in ("helm", "kubeconform")):
        missing = "helm and kubeconform are not there: run `make lint-chart` (needs Go)"
        if os.environ.get("SEQFERRY_REQUIRE_SERVERS") == "1":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)

    ended = subprocess.run([sys.executable, ROOT / "tools/check_chart.py"], capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "The chart is sound" in ended.stdout
