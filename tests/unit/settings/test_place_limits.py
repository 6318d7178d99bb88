"""Limits at places in the configuration file, and what holds of them for a worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqferry.db.transfers import AtWork
from seqferry.model.errors import UsageError
from seqferry.model.models import Adjustment
from seqferry.settings.config import Settings
from seqferry.settings.place_limits import PlaceLimit
from seqferry.settings.sizes import Bandwidth
from seqferry.workflows.limits import BudgetLimits, limits_over_all, limits_with_shares

VENDOR = PlaceLimit(place="s3://vendor/runs/", max_requests=50, max_bandwidth=Bandwidth.parse("100MB"), tpslimit=20)


def load(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    return Settings.load({"SEQFERRY_CONFIG": str(path), "HOME": str(tmp_path)})


def test_each_key_is_read(tmp_path: Path) -> None:
    text = """
[[limit]]
place = "s3://vendor/runs/"
max_requests = 50
max_bandwidth = "100MB"
tpslimit = 20

[[limit]]
place = "s3://ours"
max_bandwidth = "08:00,50MB/s 18:00,off"
"""
    vendor, ours = load(tmp_path, text).place_limits
    assert vendor == VENDOR
    assert (ours.place, ours.max_requests, str(ours.max_bandwidth)) == (
        "s3://ours",
        None,
        str(Bandwidth.parse("08:00,50MB/s 18:00,off")),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[limit]\n", "line 1: 'limit' is a list of tables; write [[limit]]."),
        ('[[limit]]\nplace = "s3://a"\n', "a limit limits nothing; write max_requests, max_bandwidth or tpslimit."),
        ("[[limit]]\ntpslimit = 5\n", 'a limit has no place; write place = "s3://bucket/runs/".'),
        ('[[limit]]\nplace = "a"\ntpslimit = 5\n', "line 2: [[limit]] place: 'a' is no bucket or prefix; write"),
        ('[[limit]]\nplace = "s3://"\ntpslimit = 5\n', "place: 's3://' is no bucket or prefix"),
        ('[[limit]]\nplace = "s3://a"\ntpslimit = 0\n', "line 3: [[limit]] tpslimit: write a number from 1 to 100000."),
        ('[[limit]]\nplace = "s3://a"\ntpslimit = true\n', "tpslimit: write a number from 1 to 100000."),
        ('[[limit]]\nplace = "s3://a"\nmax_bandwidth = 5\n', "line 3: [[limit]] max_bandwidth: "),
        ('[[limit]]\nplace = "s3://a"\nmax_bandwith = "5MB"\n', "did you mean 'max_bandwidth'?"),
        (
            '[[limit]]\nplace = "s3://a"\ntpslimit = 5\n[[limit]]\nplace = "s3://a/"\ntpslimit = 6\n',
            "two limits are at s3://a; write one table with both.",
        ),
    ],
)
def test_a_table_that_is_wrong_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        load(tmp_path, text)
    assert said in str(refused.value)
    assert str(tmp_path / "config.toml") in str(refused.value)


@pytest.mark.parametrize(
    ("uri", "is_covered"),
    [
        ("s3://vendor/runs/", True),
        ("s3://vendor/runs/42/", True),
        ("s3://vendor/runs", False),
        ("s3://vendor/runs2/", False),
        ("s3://vendor/", False),
    ],
)
def test_a_limit_covers_what_lies_below_its_place(uri: str, is_covered: bool) -> None:
    assert VENDOR.covers(uri) is is_covered


def test_a_limit_at_a_bucket_does_not_cover_one_whose_name_begins_so() -> None:
    bucket = PlaceLimit(place="s3://vendor", tpslimit=1)
    assert bucket.covers("s3://vendor")
    assert bucket.covers("s3://vendor/a")
    assert not bucket.covers("s3://vendor2/a")


def test_shares_stand_for_the_limits_and_the_least_holds() -> None:
    settings = Settings.load({}, state_dir="/nowhere", max_requests=100)
    work = {
        "a": AtWork(Adjustment(max_requests=60, max_bandwidth="80MB"), "s3://vendor/runs/1/", "s3://ours/"),
        "b": AtWork(Adjustment(tpslimit=9), "s3://elsewhere/", "s3://ours/"),
    }

    over_all = limits_over_all(work, [VENDOR, PlaceLimit(place="s3://none", tpslimit=1)])
    assert over_all == {
        "a requests": 60,
        "a bandwidth": 80_000_000,
        "b starts": 9,
        "s3://vendor/runs/ requests": 50,
        "s3://vendor/runs/ bandwidth": 100_000_000,
        "s3://vendor/runs/ starts": 20,
    }
    assert limits_with_shares(settings, work, over_all, own_work=False) == BudgetLimits(50, 80_000_000, 9)
    halves = {name: limit // 2 for name, limit in over_all.items()}
    assert limits_with_shares(settings, work, halves, own_work=False) == BudgetLimits(25, 40_000_000, 4)
    none = dict.fromkeys(over_all, 0)
    assert limits_with_shares(settings, work, none, own_work=False) == BudgetLimits(1, 1, 1)
    assert limits_with_shares(settings, {}, {}, own_work=False) == BudgetLimits(100, None, None)
