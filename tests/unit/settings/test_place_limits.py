"""Limits at places in the configuration file, and what holds of them for a worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqferry.db.transfers import WorkLimits
from seqferry.model.errors import UsageError
from seqferry.model.models import Adjustment
from seqferry.settings.config import Settings
from seqferry.settings.place_limits import PlaceLimit
from seqferry.settings.sizes import Bandwidth
from seqferry.workflows.limits import BudgetLimits, limits_over_all, limits_with_shares

VENDOR = PlaceLimit(place="s3://vendor/runs/", max_requests=50, max_bandwidth=Bandwidth.parse("100MB"), tpslimit=20)


def _at_endpoints(*urls: str) -> str:
    return "".join(f'[[limit]]\nplace = "s3://a"\nendpoint_url = "{url}"\ntpslimit = 5\n' for url in urls)


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
endpoint_url = "https://S3.Lab.example:443/"
max_bandwidth = "08:00,50MB/s 18:00,off"
"""
    vendor, ours = load(tmp_path, text).place_limits
    assert vendor == VENDOR
    assert (vendor.name, ours.name) == ("s3://vendor/runs/", "https://s3.lab.example s3://ours")
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
            '[[limit]]\nplace = "s3://a"\nendpoint_url = "https://s3.lab.example"\n',
            "a limit limits nothing; write max_requests, max_bandwidth or tpslimit.",
        ),
        (
            '[[limit]]\nplace = "s3://a"\nendpoint_url = "s3.lab.example"\ntpslimit = 5\n',
            "line 3: [[limit]] endpoint_url: 's3.lab.example' is no endpoint URL; write for example https://",
        ),
        (
            '[[limit]]\nplace = "s3://a"\nendpoint_url = 5\ntpslimit = 5\n',
            "line 3: [[limit]] endpoint_url: write a text.",
        ),
        (
            '[[limit]]\nplace = "s3://a"\nendpoint = "https://s3.lab.example"\ntpslimit = 5\n',
            "did you mean 'endpoint_url'?",
        ),
        (
            _at_endpoints("https://b.example", "https://b.example:443/"),
            "two limits are at s3://a; write one table with both.",
        ),
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
    assert VENDOR.covers(uri, None) is is_covered
    assert VENDOR.covers(uri, "https://s3.lab.example") is is_covered


@pytest.mark.parametrize(
    ("endpoint_url", "endpoint", "is_covered"),
    [
        ("https://s3.lab.example/", "https://s3.lab.example", True),
        ("https://s3.lab.example", "https://s3.vendor.example", False),
        ("https://s3.lab.example", None, False),
        ("https://s3.amazonaws.com", None, True),
        ("https://s3.amazonaws.com", "https://s3.lab.example", False),
    ],
)
def test_a_limit_of_a_service_covers_its_bucket_alone(
    endpoint_url: str, endpoint: str | None, *, is_covered: bool
) -> None:
    limit = PlaceLimit(place="s3://runs", endpoint_url=endpoint_url, tpslimit=1)

    assert limit.covers("s3://runs/42/", endpoint) is is_covered
    assert not limit.covers("s3://other/", endpoint)


def test_a_secret_in_an_endpoint_is_not_shown(tmp_path: Path) -> None:
    text = '[[limit]]\nplace = "s3://a"\nendpoint_url = "https://ada:geheim@s3.lab.example"\ntpslimit = 5\n'
    with pytest.raises(UsageError, match=r"line 3: .*without credentials") as refused:
        load(tmp_path, text)
    assert "geheim" not in str(refused.value)


def test_a_limit_at_a_bucket_does_not_cover_one_whose_name_begins_so() -> None:
    bucket = PlaceLimit(place="s3://vendor", tpslimit=1)
    assert bucket.covers("s3://vendor", None)
    assert bucket.covers("s3://vendor/a", None)
    assert not bucket.covers("s3://vendor2/a", None)


def test_buckets_of_one_name_at_two_services_have_each_their_limit() -> None:
    lab, vendor = "https://s3.lab.example", "https://s3.vendor.example"
    places = [
        PlaceLimit(place="s3://runs", endpoint_url=lab, max_requests=7),
        PlaceLimit(place="s3://runs", endpoint_url=vendor, max_requests=9),
    ]
    into_the_lab = WorkLimits(Adjustment(), "s3://runs/1/", "s3://runs/1/", (None, lab))
    both = WorkLimits(Adjustment(), "s3://runs/1/", "s3://runs/1/", (vendor, lab))

    assert limits_over_all({"a": into_the_lab}, places) == {f"{lab} s3://runs requests": 7}
    shares = limits_over_all({"a": both}, places)
    assert shares == {f"{lab} s3://runs requests": 7, f"{vendor} s3://runs requests": 9}
    settings = Settings.load({}, state_dir="/nowhere", max_requests=100)
    assert limits_with_shares(settings, {"a": both}, shares, own_work=False).requests == 7


def test_shares_stand_for_the_limits_and_the_least_holds() -> None:
    settings = Settings.load({}, state_dir="/nowhere", max_requests=100)
    work = {
        "a": WorkLimits(Adjustment(max_requests=60, max_bandwidth="80MB"), "s3://vendor/runs/1/", "s3://ours/"),
        "b": WorkLimits(Adjustment(tpslimit=9), "s3://elsewhere/", "s3://ours/"),
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
