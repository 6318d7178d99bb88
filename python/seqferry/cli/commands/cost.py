"""``seqferry cost``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from seqferry.cli import exits
from seqferry.cli.option_groups import AnswerFormat
from seqferry.cli.output import display, text
from seqferry.model.frozen import frozen

if TYPE_CHECKING:
    from seqferry.cost.lines import Comparison, Pricer
    from seqferry.cost.workload import Workload

cost = typer.Typer(
    help="Estimate AWS costs from list prices.",
    rich_markup_mode=None,
)

_Against = Annotated[
    list[str] | None,
    typer.Option(
        "--against",
        metavar="OTHER",
        help="Alternative to compare with. Can be repeated.",
    ),
]
_Machine = Annotated[
    str | None,
    typer.Option(
        "--machine",
        metavar="TYPE",
        help="EC2 instance type to include in the cost.",
    ),
]
_ClassName = Annotated[
    str,
    typer.Option(
        "--storage-class",
        metavar="NAME",
        help="Storage class, as STANDARD_IA.",
    ),
]
_Outside = Annotated[
    bool,
    typer.Option("--outside", help="Data is read from outside AWS (internet egress)."),
]


@frozen(kw_only=True)
class StoredData:
    """Options for the data that a cost is of."""

    PANEL: ClassVar = "Options"

    size: Annotated[
        str,
        typer.Option("--size", metavar="SIZE", help="Total size, as 11.88TiB or 8785GB."),
    ]
    objects: Annotated[int, typer.Option("--objects", metavar="N", help="Number of objects.")] = 1

    def workload(self) -> Workload:
        """The data as costs take it.

        Raises:
            UsageError: the size is none.
        """
        from seqferry.cost.workload import Workload, parse_size

        return Workload(parse_size(self.size, "--size"), self.objects)


@frozen
class PriceOptions:
    """Options for the prices that hold."""

    PANEL: ClassVar = "Options"

    region: Annotated[
        str,
        typer.Option("--region", metavar="NAME", help="AWS region of the prices."),
    ] = "us-east-1"
    discount: Annotated[
        float,
        typer.Option("--discount", metavar="PERCENT", help="Discount on all prices."),
    ] = 0.0
    machine_discount: Annotated[
        float,
        typer.Option(
            "--machine-discount",
            metavar="PERCENT",
            help="Discount on instance hours if it is larger (Savings Plan, reserved instances).",
        ),
    ] = 0.0
    prices: Annotated[
        Path | None,
        typer.Option(
            "--prices",
            metavar="FILE",
            help="Price file. `seqferry cost prices` prints the default one.",
        ),
    ] = None

    def pricer(self) -> Pricer:
        """The pricer of these options.

        Raises:
            UsageError: a discount is no percentage, or there are no such prices.
        """
        from seqferry.cost.lines import Pricer, decimal
        from seqferry.model import prices

        return Pricer(
            prices.read_shipped(self.region) if self.prices is None else prices.read_file(self.prices, self.region),
            decimal(self.discount, "--discount", most=100),
            decimal(self.machine_discount, "--machine-discount", most=100),
        )


@frozen
class CostOfGateway:
    """Options for the machine and the disks of a gateway."""

    PANEL: ClassVar = "Options"

    machine: Annotated[str, typer.Option("--machine", metavar="TYPE", help="EC2 instance type.")] = "c5.4xlarge"
    disks: Annotated[
        str,
        typer.Option(
            "--disks",
            metavar="DISK,...",
            help="Root and cache volume: TYPE[:IOPS[:MB/s]][@GB]. One value applies to both.",
        ),
    ] = "io1:4000,io1:1500"
    against: _Against = None
    root_size: Annotated[
        int,
        typer.Option("--root-size", metavar="GB", help="Size of the root volume in GiB."),
    ] = 80
    cache_size: Annotated[
        int,
        typer.Option("--cache-size", metavar="GB", help="Size of the cache volume in GiB."),
    ] = 512
    hours: Annotated[
        float,
        typer.Option("--hours", metavar="N", help="Instance hours per month."),
    ] = 730.0
    written: Annotated[
        str,
        typer.Option(
            "--written",
            metavar="SIZE",
            help="Data written through the gateway per month.",
        ),
    ] = "0"


@frozen
class CostOfMirror:
    """Options for a copy from bucket to bucket."""

    PANEL: ClassVar = "Options"

    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against",
            metavar="WAY",
            help="Alternative to compare with: datasync-enhanced, datasync-basic, s3mirror or parts:SIZE. Can "
            "be repeated. Default: the first three.",
        ),
    ] = None
    part_size: Annotated[
        str | None,
        typer.Option(
            "--part-size",
            metavar="SIZE",
            help="Part size of Seqferry. Default: 128MiB.",
        ),
    ] = None
    to_region: Annotated[
        str | None,
        typer.Option(
            "--to-region",
            metavar="NAME",
            help="Region of the target. Default: the same region.",
        ),
    ] = None
    machine: _Machine = None
    machine_hours: Annotated[
        float,
        typer.Option("--machine-hours", metavar="N", help="Hours of --machine."),
    ] = 1.0
    cpu_ms: Annotated[
        float | None,
        typer.Option(
            "--cpu-ms",
            metavar="N",
            help="CPU milliseconds of s3mirror. Default: scaled from its authors' measurement.",
        ),
    ] = None


@frozen
class CostOfStage:
    """Options for tasks that read the data."""

    PANEL: ClassVar = "Options"

    tasks: Annotated[
        int,
        typer.Option("--tasks", metavar="N", help="Number of tasks that read the data."),
    ] = 1
    fraction: Annotated[
        float,
        typer.Option(
            "--fraction",
            metavar="PERCENT",
            help="Percentage of the files that a task reads.",
        ),
    ] = 100.0
    storage_class: _ClassName = "STANDARD"
    machine: _Machine = None
    disk: Annotated[
        str | None,
        typer.Option("--disk", metavar="TYPE", help="EBS volume of each task: gp2, gp3 or st1."),
    ] = None
    hours: Annotated[float, typer.Option("--hours", metavar="N", help="Hours per task.")] = 1.0
    outside: _Outside = False
    nat: Annotated[bool, typer.Option("--nat", help="Task traffic passes a NAT gateway.")] = False


@frozen
class CostOfStorage:
    """Options for the keeping of objects."""

    PANEL: ClassVar = "Options"

    months: Annotated[float, typer.Option("--months", metavar="N", help="Months of storage.")] = 1.0
    storage_class: _ClassName = "STANDARD"
    against: _Against = None
    read: Annotated[
        str,
        typer.Option("--read", metavar="SIZE", help="Total size of all reads."),
    ] = "0"
    outside: _Outside = False
    archives: Annotated[
        int | None,
        typer.Option(
            "--archives",
            metavar="N",
            help="Also compare with the same data in N tar archives.",
        ),
    ] = None


@cost.callback()
def _group() -> None: ...


@cost.command()
def gateway(asked: CostOfGateway, prices: PriceOptions, answer: AnswerFormat) -> int:
    """Cost of a Storage Gateway on EC2 for a month."""
    from seqferry.cost import gateway as costs
    from seqferry.cost.workload import parse_size

    request = costs.GatewayRequest(
        machine=asked.machine,
        disks=asked.disks,
        against=asked.against if asked.against is not None else ("gp2",),
        sizes=(asked.root_size, asked.cache_size),
        hours=asked.hours,
        written=parse_size(asked.written, "--written"),
    )
    return _show(costs.compare(request, prices.pricer()), answer)


@cost.command()
def mirror(data: StoredData, asked: CostOfMirror, prices: PriceOptions, answer: AnswerFormat) -> int:
    """Cost of copying between buckets once."""
    from seqferry.cost import mirror as costs
    from seqferry.cost.workload import parse_size

    request = costs.MirrorRequest(
        workload=data.workload(),
        against=asked.against if asked.against is not None else costs.WAYS,
        part_size=None if asked.part_size is None else parse_size(asked.part_size, "--part-size"),
        to_region=asked.to_region,
        machine=asked.machine,
        machine_hours=asked.machine_hours,
        cpu_ms=asked.cpu_ms,
    )
    return _show(costs.compare(request, prices.pricer()), answer)


@cost.command()
def stage(data: StoredData, asked: CostOfStage, prices: PriceOptions, answer: AnswerFormat) -> int:
    """Cost of staging data for the tasks of a pipeline."""
    from seqferry.cost import stage as costs

    request = costs.StageRequest(
        workload=data.workload(),
        tasks=asked.tasks,
        fraction=asked.fraction,
        storage_class=asked.storage_class,
        machine=asked.machine,
        disk=asked.disk,
        hours=asked.hours,
        outside=asked.outside,
        nat=asked.nat,
    )
    return _show(costs.compare(request, prices.pricer()), answer)


@cost.command()
def store(data: StoredData, asked: CostOfStorage, prices: PriceOptions, answer: AnswerFormat) -> int:
    """Cost of keeping objects in S3, with minimum sizes and durations."""
    from seqferry.cost import store as costs
    from seqferry.cost.workload import parse_size

    request = costs.StoreRequest(
        workload=data.workload(),
        months=asked.months,
        storage_class=asked.storage_class,
        against=asked.against or (),
        read=parse_size(asked.read, "--read"),
        outside=asked.outside,
        archives=asked.archives,
    )
    return _show(costs.compare(request, prices.pricer()), answer)


@cost.command()
def prices() -> int:
    """Print the price list in the format of --prices."""
    from seqferry.model.prices import shipped_text

    print(shipped_text(), end="")
    return exits.OK


def _show(found: Comparison, answer: AnswerFormat) -> int:
    from seqferry.cli.output import costs

    if answer.as_json:
        display.emit("cost", **found.facts())
    else:
        for line in costs.format_comparison(found):
            print(text.printable(line))
    return exits.OK
