"""Costs: figures computed by hand, and one line for what makes no sense."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from seqferry.cli.app import run
from seqferry.cost import gateway, mirror, stage, store
from seqferry.cost.lines import Offer, Pricer, money
from seqferry.cost.workload import Workload, parse_size
from seqferry.model import prices
from seqferry.model.errors import UsageError

PRICER = Pricer(prices.read_shipped("us-east-1"))
TIB = 2**40


def item(offer: Offer, name: str) -> Decimal:
    return sum((line.dollars for line in offer.lines if line.item == name), Decimal(0))


def test_a_gateway_with_provisioned_disks_beside_general_ones() -> None:
    """The figures of the AWS Storage Blog: $929.26 and $556.96 in 732 hours, 40.06 % less; gp3 by hand."""
    found = gateway.compare(
        gateway.GatewayRequest(hours=732.0, against=("gp2", "gp3:4000,gp3", "io2:40000@80")), PRICER
    )

    provisioned, general, third, fourth = found.offers
    assert provisioned.dollars == Decimal("929.26")
    assert general.dollars == Decimal("556.96")
    assert third.dollars == Decimal("550.12")
    # 80 GB, 32,000 IOPS at 0.065, 8,000 at 0.046.
    assert fourth.dollars == Decimal("497.76") + 10 + 2080 + 368
    assert found.facts()["offers"][1]["difference_percent"] == -40.06


def test_a_gateway_of_730_hours() -> None:
    found = gateway.compare(gateway.GatewayRequest(), PRICER)

    assert [money(offer.dollars) for offer in found.offers] == ["927.90", "555.60"]


@pytest.mark.parametrize(
    ("written", "dollars"), [("100GiB", "0"), ("1124GiB", "10.24"), ("12600GiB", "125"), ("1PiB", "125")]
)
def test_what_is_written_through_a_gateway_is_free_at_first_and_capped(written: str, dollars: str) -> None:
    request = gateway.GatewayRequest(written=parse_size(written, "x"), against=())

    [offer] = gateway.compare(request, PRICER).offers

    assert offer.dollars - Decimal("927.90") == Decimal(dollars)


def test_copies_beside_datasync_and_s3mirror() -> None:
    """The figures of the S3Mirror paper: $183.03 and $0.10, $99 a month; requests of parts $3.89 and $0.49."""
    request = mirror.MirrorRequest(Workload(parse_size("11.88TiB", "x"), 448), machine="c5.4xlarge")

    found = mirror.compare(request, PRICER)

    ours, enhanced, basic, theirs = found.offers
    assert money(ours.dollars - item(ours, "machine c5.4xlarge")) == "0.49"
    assert (money(enhanced.dollars), money(basic.dollars)) == ("183.03", "152.06")
    assert money(item(theirs, "CPU of DBOS Cloud")) == "0.10"
    assert item(theirs, "a month of DBOS Cloud Pro") == 99
    assert money(item(theirs, "copies of parts of 16.0 MiB")) == "3.89"
    assert any("$196.48" in note for note in found.notes), "the other reading of a GB"


def test_copies_are_compared_with_machine_and_subscription_on_both_sides_or_on_neither() -> None:
    workload = Workload(parse_size("11.88TiB", "x"), 448)

    def items(machine: str | None) -> dict[str, list[str]]:
        found = mirror.compare(mirror.MirrorRequest(workload, machine=machine), PRICER)
        return {offer.name: [line.item for line in offer.lines] for offer in found.offers}

    machines = {"machine c5.4xlarge", "CPU of DBOS Cloud", "a month of DBOS Cloud Pro"}
    assert not machines & {item for each in items(None).values() for item in each}
    counted = items("c5.4xlarge")
    assert machines & set(counted["seqferry"]) == {"machine c5.4xlarge"}
    assert machines & set(counted["s3mirror"]) == {"CPU of DBOS Cloud", "a month of DBOS Cloud Pro"}
    [omitted, *_] = mirror.compare(mirror.MirrorRequest(workload), PRICER).left_out
    assert "that of s3mirror with its subscription: $99.10" in omitted
    with pytest.raises(UsageError, match="give --machine"):
        mirror.compare(mirror.MirrorRequest(workload, cpu_ms=5.0), PRICER)


def test_half_a_cent_is_rounded_up() -> None:
    """The sum of the paper is a tie: 12,165 x 0.015 + 0.55 = 183.025."""
    assert money(Decimal("183.025")) == "183.03"


def test_traffic_between_regions_has_the_price_of_the_way() -> None:
    def dollars(to_region: str) -> Decimal:
        request = mirror.MirrorRequest(Workload(TIB, 1), against=(), to_region=to_region)
        return item(mirror.compare(request, PRICER).offers[0], "traffic between regions")

    assert [dollars(region) for region in ("us-east-1", "us-east-2", "eu-west-1")] == [
        0,
        Decimal("10.24"),
        Decimal("20.48"),
    ]


def test_classes_have_least_times_sizes_and_overheads() -> None:
    request = store.StoreRequest(Workload(1000 * 1024, 1000), against=("standard-ia", "DEEP_ARCHIVE"))

    standard, infrequent, deep = store.compare(request, PRICER).offers

    kib_month = Decimal(1) / 2**20
    assert item(standard, "storage, 1 months") == 1000 * kib_month * Decimal("0.023")
    assert item(infrequent, "storage, 1 months") == 128_000 * kib_month * Decimal("0.0125")
    assert item(deep, "storage, 6 months") == 6 * 1000 * kib_month * Decimal("0.00099")
    assert item(deep, "index of the objects") == 6 * 32_000 * kib_month * Decimal("0.00099")
    assert item(deep, "names of the objects") == 6 * 8_000 * kib_month * Decimal("0.023")


def test_large_amounts_go_through_the_steps_of_a_price() -> None:
    request = store.StoreRequest(Workload(600 * TIB, 1_000_000), read=200 * TIB, outside=True)

    [offer] = store.compare(request, PRICER).offers

    stored = [line.dollars for line in offer.lines if line.item.startswith("storage")]
    assert stored == [Decimal("1177.6"), Decimal("10137.6"), Decimal("2150.4")]
    traffic = [line.dollars for line in offer.lines if line.item.startswith("traffic")]
    assert traffic == [Decimal("921.6"), Decimal("3481.6"), Decimal(7168), Decimal(2560)]


def test_a_mount_reads_a_fraction_and_a_tar_is_one_object() -> None:
    workload = Workload(10_000 * 100_000, 10_000)
    request = stage.StageRequest(workload, tasks=1000, fraction=5.0, nat=True)

    files, tar, mounted = stage.compare(request, PRICER).offers

    assert item(files, "reads") == Decimal(4)
    assert item(tar, "reads") == Decimal(120 * 1000) * Decimal("0.0004") / 1000
    assert item(mounted, "reads") == Decimal("0.2")
    assert item(mounted, "through a NAT gateway") * 20 == item(files, "through a NAT gateway")


def test_discounts_hold_for_all_or_for_machines() -> None:
    request = gateway.GatewayRequest(disks="gp2", against=())
    machine, disks = Decimal("0.68") * 730, Decimal("59.2")

    def dollars(discount: int, of_machines: int) -> Decimal:
        pricer = Pricer(prices.read_shipped("us-east-1"), Decimal(discount), Decimal(of_machines))
        return gateway.compare(request, pricer).offers[0].dollars

    assert dollars(50, 0) == (machine + disks) / 2
    assert dollars(10, 40) == machine * Decimal("0.6") + disks * Decimal("0.9")
    assert dollars(100, 0) == 0


def test_json_holds_each_line_with_its_price(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cost", "gateway", "--hours", "732", "--json"]) == 0
    event = json.loads(capsys.readouterr().out)

    assert [offer["dollars"] for offer in event["offers"]] == [929.26, 556.96]
    assert event["left_out"]
    first = event["offers"][0]["lines"][0]
    assert (first["price"], first["price_dollars"], first["quantity"]) == ("ec2-c5.4xlarge", 0.68, 732)
    assert {"unit", "source", "date", "verified", "region"} <= set(first)


ROW = """
["ec2-c5.4xlarge"]
dollars = 0.5
amount = 1
per = "hour"
unit = "hours of c5.4xlarge"
region = "us-east-1"
source = "our agreement"
date = 2026-01-31
"""
MORE = "".join(
    f'[ebs-{name}]\ndollars = "1"\namount = 1073741824\nper = "GB-month"\nunit = "GB"\nregion = "us-east-1"\n'
    "source = 'x'\ndate = 2026-01-31\n"
    for name in ("gp2-gb",)
)


def test_a_file_of_ones_own_stands_in_place_of_the_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(ROW + MORE)

    assert run(["cost", "gateway", "--disks", "gp2", "--against", "gp2@1", "--prices", str(file), "--json"]) == 0

    offers = json.loads(capsys.readouterr().out)["offers"]
    assert [offer["dollars"] for offer in offers] == [365 + 592, 365 + 1]
    assert offers[0]["lines"][0]["source"] == "our agreement"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (ROW, "has no row ebs-gp2-gb for us-east-1"),
        ("", "has no prices of region"),
        ('currency = "EUR"\n' + ROW, "EUR"),
        ("currency = 3\n" + ROW, "prices in 3"),
        (ROW.replace("0.5", "-0.5"), "negative"),
        (ROW.replace("0.5", '"-1e-3"'), "negative"),
        (ROW.replace("0.5", "nan"), "dollars"),
        (ROW.replace("0.5", "inf"), "dollars"),
        (ROW.replace("0.5", "true"), "dollars"),
        (ROW.replace("0.5", '"much"'), "dollars"),
        (ROW.replace("0.5", "1e30"), "over 1,000,000,000"),
        (ROW.replace("dollars", "euros"), "euros"),
        (ROW.replace("amount = 1", "amount = 0"), "amount"),
        (ROW.replace("amount = 1", "amount = 1.5"), "amount"),
        (ROW.replace('per = "hour"', ""), "per"),
        (ROW.replace("2026-01-31", "2026"), "date"),
        (ROW.replace('"our agreement"', '" "'), "source"),
        (ROW + "in = 3\n", ".in is not a row"),
        (ROW + "in.eu-west-1 = { amount = 3 }\n", "amount"),
        ("x = 1\n", "x is not a row"),
        ("[[x]]\n", "x is not a row"),
        ("what = ", "not TOML"),
        ("\x00", "not TOML"),
    ],
)
def test_a_file_of_prices_that_makes_no_sense_is_refused_in_one_line(
    written: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(written)

    code = run(["cost", "gateway", "--disks", "gp2", "--prices", str(file)])

    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1, err
    assert said in err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("gateway --hours -1", "--hours"),
        ("gateway --hours nan", "--hours"),
        ("gateway --hours 800", "744"),
        ("gateway --disks io1", "io1:4000"),
        ("gateway --disks gp2:3000", "no IOPS to buy"),
        ("gateway --disks gp4", "gp4"),
        ("gateway --disks io1:-5", "io1:-5"),
        ("gateway --disks io1:4001@80", "4,000"),
        ("gateway --disks gp2,gp2,gp2", "gp2@200"),
        ("gateway --disks gp2@0", "65,536"),
        ("gateway --root-size -80", "-80"),
        ("gateway --disks io1:4000:9", "throughput"),
        ("gateway --against io1", "--against"),
        ("gateway --machine c9.huge", "c9.huge"),
        ("gateway --region mars-1", "mars-1"),
        ("gateway --discount 101", "--discount"),
        ("gateway --discount -1", "--discount"),
        ("gateway --machine-discount nan", "--machine-discount"),
        ("gateway --written much", "much"),
        ("gateway --written -1GB", "-1GB"),
        ("gateway --prices /no/such/file", "/no/such/file"),
        ("gateway --prices /tmp", "/tmp"),
        ("gateway --prices /dev/zero", "MiB"),
        ("mirror", "--size"),
        ("mirror --size 1TiB --objects 0", "--objects"),
        ("mirror --size 1TiB --objects -3", "--objects"),
        ("mirror --size 5EiB", "exbibyte"),
        ("mirror --size 1TiB --against ftp", "ftp"),
        ("mirror --size 1TiB --against parts:1KiB", "5 MiB"),
        ("mirror --size 1TiB --against parts:", "no size"),
        ("mirror --size 1TiB --part-size 6GiB", "--part-size"),
        ("mirror --size 1TiB --cpu-ms -1", "--cpu-ms"),
        ("mirror --size 1TiB --machine-hours -1 --machine m5.xlarge", "--machine-hours"),
        ("stage --size 1TiB --tasks 0", "--tasks"),
        ("stage --size 1TiB --fraction 101", "--fraction"),
        ("stage --size 1TiB --disk io1", "--disk"),
        ("stage --size 1TiB --storage-class COLD", "COLD"),
        ("stage --size 1TiB --storage-class GLACIER", "restored"),
        ("store --size 1TiB --months -1", "--months"),
        ("store --size 1TiB --months inf", "--months"),
        ("store --size 1TiB --against COLD", "COLD"),
        ("store --size 1TiB --archives 0", "--objects"),
        ("store --size 1TiB --storage-class STANDARD_IA --region eu-central-1", "s3-standard-ia-write"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_in_one_line(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["cost", *line.split()])

    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1, err
    assert said in err


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-1", "eu-central-1"])
def test_each_question_has_its_prices_in_each_region(region: str, capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("gateway", "mirror --size 1TiB --against parts:16MiB", "stage --size 1TiB --nat", "store --size 1TiB"):
        assert run(["cost", *line.split(), "--region", region]) == 0, capsys.readouterr().err
    assert f"({region}, USD)" in capsys.readouterr().out


def test_each_price_is_marked_as_verified_or_not() -> None:
    for region in prices.read_shipped("us-east-1").regions:
        for price in prices.read_shipped(region).rows.values():
            assert price.per
            assert price.then is None or price.then in prices.read_shipped(region).rows
    assert not prices.table()["datasync-basic"].verified
    assert prices.table()["s3-month"].verified
