"""``seqferry cost``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqferry.cli import exits, options
from seqferry.cli.output import display, text
from seqferry.model.errors import UsageError

if TYPE_CHECKING:
    from seqferry.cost.lines import Comparison, Pricer

cost = typer.Typer(
    help="Compute costs on AWS, by list prices or by your own: nothing is asked or started.",
    rich_markup_mode=None,
)

Size = Annotated[
    str,
    typer.Option("--size", envvar="SEQFERRY_COST_SIZE", metavar="SIZE", help="Bytes in all, as 11.88TiB or 8785GB."),
]
Objects = Annotated[
    int, typer.Option("--objects", envvar="SEQFERRY_COST_OBJECTS", metavar="N", help="Objects that hold them.")
]
Against = Annotated[
    list[str] | None,
    typer.Option(
        "--against",
        envvar="SEQFERRY_COST_AGAINST",
        metavar="OTHER",
        help="Another one, side by side with the first. May be repeated.",
    ),
]
Machine = Annotated[
    str | None,
    typer.Option(
        "--machine", envvar="SEQFERRY_COST_MACHINE", metavar="TYPE", help="Machine of EC2 whose hours are counted too."
    ),
]
ClassName = Annotated[
    str,
    typer.Option(
        "--storage-class", envvar="SEQFERRY_COST_STORAGE_CLASS", metavar="NAME", help="Storage class, as STANDARD_IA."
    ),
]
Outside = Annotated[
    bool, typer.Option("--outside", envvar="SEQFERRY_COST_OUTSIDE", help="What is read leaves AWS, to the internet.")
]
Region = Annotated[
    str,
    typer.Option("--region", envvar="SEQFERRY_COST_REGION", metavar="NAME", help="Region whose prices hold."),
]
Discount = Annotated[
    float,
    typer.Option("--discount", envvar="SEQFERRY_COST_DISCOUNT", metavar="PERCENT", help="Off every price."),
]
MachineDiscount = Annotated[
    float,
    typer.Option(
        "--machine-discount",
        envvar="SEQFERRY_COST_MACHINE_DISCOUNT",
        metavar="PERCENT",
        help="Off the hours of machines, where it is more: a Savings Plan, a reservation.",
    ),
]
Prices = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        envvar="SEQFERRY_COST_PRICES",
        metavar="FILE",
        help="Your own prices, in place of the list; `seqferry cost prices` prints the list to begin with.",
    ),
]
AsCsv = Annotated[bool, typer.Option("--csv", envvar="SEQFERRY_COST_CSV", help="Print CSV, a row for each line.")]


@cost.callback()
def _group() -> None:
    """Compute costs on AWS, by list prices or by your own."""


@cost.command()
def gateway(
    machine: Annotated[
        str, typer.Option("--machine", envvar="SEQFERRY_COST_MACHINE", metavar="TYPE", help="Machine of EC2.")
    ] = "c5.4xlarge",
    disks: Annotated[
        str,
        typer.Option(
            "--disks",
            envvar="SEQFERRY_COST_DISKS",
            metavar="DISK,...",
            help="Root and cache disk, as TYPE[:IOPS[:MB/s]][@GB]; one alone holds for both.",
        ),
    ] = "io1:4000,io1:1500",
    against: Against = None,
    root_size: Annotated[
        int,
        typer.Option("--root-size", envvar="SEQFERRY_COST_ROOT_SIZE", metavar="GB", help="Of the root disk, in GiB."),
    ] = 80,
    cache_size: Annotated[
        int,
        typer.Option(
            "--cache-size", envvar="SEQFERRY_COST_CACHE_SIZE", metavar="GB", help="Of the cache disk, in GiB."
        ),
    ] = 512,
    hours: Annotated[
        float,
        typer.Option("--hours", envvar="SEQFERRY_COST_HOURS", metavar="N", help="Hours of the machine in the month."),
    ] = 730.0,
    written: Annotated[
        str,
        typer.Option(
            "--written", envvar="SEQFERRY_COST_WRITTEN", metavar="SIZE", help="Written through it in the month."
        ),
    ] = "0",
    region: Region = "us-east-1",
    discount: Discount = 0.0,
    machine_discount: MachineDiscount = 0.0,
    prices: Prices = None,
    as_json: options.Json = False,
    as_csv: AsCsv = False,
) -> int:
    """A Storage Gateway on EC2 for a month: its machine and its disks, side by side with other disks."""
    from seqferry.cost import gateway as costs
    from seqferry.cost.workload import parse_size

    request = costs.GatewayRequest(
        machine=machine,
        disks=disks,
        against=against if against is not None else ("gp2",),
        sizes=(root_size, cache_size),
        hours=hours,
        written=parse_size(written, "--written"),
    )
    pricer = _pricer(prices, region, discount, machine_discount)
    return _show(costs.compare(request, pricer), as_json=as_json, as_csv=as_csv)


@cost.command()
def mirror(
    size: Size,
    objects: Objects = 1,
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against",
            envvar="SEQFERRY_COST_AGAINST",
            metavar="WAY",
            help="datasync-enhanced, datasync-basic, s3mirror or parts:SIZE. May be repeated. Default: the first "
            "three.",
        ),
    ] = None,
    part_size: Annotated[
        str | None,
        typer.Option(
            "--part-size",
            envvar="SEQFERRY_COST_PART_SIZE",
            metavar="SIZE",
            help="Of parts that Seqferry copies. Default: 128 MiB.",
        ),
    ] = None,
    to_region: Annotated[
        str | None,
        typer.Option("--to-region", envvar="SEQFERRY_COST_TO_REGION", metavar="NAME", help="Region of the target."),
    ] = None,
    machine: Machine = None,
    machine_hours: Annotated[
        float,
        typer.Option("--machine-hours", envvar="SEQFERRY_COST_MACHINE_HOURS", metavar="N", help="Hours of --machine."),
    ] = 1.0,
    cpu_ms: Annotated[
        float | None,
        typer.Option(
            "--cpu-ms",
            envvar="SEQFERRY_COST_CPU_MS",
            metavar="N",
            help="CPU milliseconds of s3mirror. Default: as its authors measured, in proportion.",
        ),
    ] = None,
    region: Region = "us-east-1",
    discount: Discount = 0.0,
    machine_discount: MachineDiscount = 0.0,
    prices: Prices = None,
    as_json: options.Json = False,
    as_csv: AsCsv = False,
) -> int:
    """Copying from bucket to bucket once, side by side with DataSync, S3Mirror and other sizes of parts."""
    from seqferry.cost import mirror as costs
    from seqferry.cost.workload import Workload, parse_size

    request = costs.MirrorRequest(
        workload=Workload(parse_size(size, "--size"), objects),
        against=against if against is not None else costs.WAYS,
        part_size=None if part_size is None else parse_size(part_size, "--part-size"),
        to_region=to_region,
        machine=machine,
        machine_hours=machine_hours,
        cpu_ms=cpu_ms,
    )
    pricer = _pricer(prices, region, discount, machine_discount)
    return _show(costs.compare(request, pricer), as_json=as_json, as_csv=as_csv)


@cost.command()
def stage(
    size: Size,
    objects: Objects = 1,
    tasks: Annotated[
        int, typer.Option("--tasks", envvar="SEQFERRY_COST_TASKS", metavar="N", help="Tasks that each read it.")
    ] = 1,
    fraction: Annotated[
        float,
        typer.Option(
            "--fraction", envvar="SEQFERRY_COST_FRACTION", metavar="PERCENT", help="Of the files that a task reads."
        ),
    ] = 100.0,
    storage_class: ClassName = "STANDARD",
    machine: Machine = None,
    disk: Annotated[
        str | None,
        typer.Option("--disk", envvar="SEQFERRY_COST_DISK", metavar="TYPE", help="Disk of each task: gp2, gp3 or st1."),
    ] = None,
    hours: Annotated[
        float, typer.Option("--hours", envvar="SEQFERRY_COST_HOURS", metavar="N", help="Hours of a task.")
    ] = 1.0,
    outside: Outside = False,
    nat: Annotated[
        bool, typer.Option("--nat", envvar="SEQFERRY_COST_NAT", help="Traffic of the tasks passes a NAT gateway.")
    ] = False,
    region: Region = "us-east-1",
    discount: Discount = 0.0,
    machine_discount: MachineDiscount = 0.0,
    prices: Prices = None,
    as_json: options.Json = False,
    as_csv: AsCsv = False,
) -> int:
    """Bringing data to tasks of a pipeline: file by file, as one tar, or read in place by a mount."""
    from seqferry.cost import stage as costs
    from seqferry.cost.workload import Workload, parse_size

    request = costs.StageRequest(
        workload=Workload(parse_size(size, "--size"), objects),
        tasks=tasks,
        fraction=fraction,
        storage_class=storage_class,
        machine=machine,
        disk=disk,
        hours=hours,
        outside=outside,
        nat=nat,
    )
    pricer = _pricer(prices, region, discount, machine_discount)
    return _show(costs.compare(request, pricer), as_json=as_json, as_csv=as_csv)


@cost.command()
def store(
    size: Size,
    objects: Objects = 1,
    months: Annotated[
        float, typer.Option("--months", envvar="SEQFERRY_COST_MONTHS", metavar="N", help="Months they are kept.")
    ] = 1.0,
    storage_class: ClassName = "STANDARD",
    against: Against = None,
    read: Annotated[
        str,
        typer.Option("--read", envvar="SEQFERRY_COST_READ", metavar="SIZE", help="Read of them in all."),
    ] = "0",
    outside: Outside = False,
    archives: Annotated[
        int | None,
        typer.Option(
            "--archives", envvar="SEQFERRY_COST_ARCHIVES", metavar="N", help="And the same packed into so many tars."
        ),
    ] = None,
    region: Region = "us-east-1",
    discount: Discount = 0.0,
    machine_discount: MachineDiscount = 0.0,
    prices: Prices = None,
    as_json: options.Json = False,
    as_csv: AsCsv = False,
) -> int:
    """Keeping objects in S3: uploads, storage with the least sizes and times of its class, reads."""
    from seqferry.cost import store as costs
    from seqferry.cost.workload import Workload, parse_size

    request = costs.StoreRequest(
        workload=Workload(parse_size(size, "--size"), objects),
        months=months,
        storage_class=storage_class,
        against=against or (),
        read=parse_size(read, "--read"),
        outside=outside,
        archives=archives,
    )
    pricer = _pricer(prices, region, discount, machine_discount)
    return _show(costs.compare(request, pricer), as_json=as_json, as_csv=as_csv)


@cost.command()
def prices() -> int:
    """Print the list of prices, as the file that --prices takes."""
    from seqferry.model.prices import shipped_text

    print(shipped_text(), end="")
    return exits.OK


def _pricer(path: Path | None, region: str, discount: float, of_machines: float) -> Pricer:
    from seqferry.cost.lines import Pricer, decimal
    from seqferry.model import prices

    return Pricer(
        prices.shipped(region) if path is None else prices.from_file(path, region),
        decimal(discount, "--discount", most=100),
        decimal(of_machines, "--machine-discount", most=100),
    )


def _show(found: Comparison, *, as_json: bool, as_csv: bool) -> int:
    from seqferry.cli.output import costs

    if as_json and as_csv:
        raise UsageError("--json and --csv: choose one.")
    if as_json:
        display.emit("cost", **found.facts())
    elif as_csv:
        print(costs.as_csv(found), end="")
    else:
        for line in costs.lines(found):
            print(text.printable(line))
    return exits.OK
