"""``seqferry pack``."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

import typer

from seqferry.cli import exits, options, spec_arguments
from seqferry.cli.option_groups import Output, Pricing, SourcesAndTarget, Start
from seqferry.cli.output import display, preview, text
from seqferry.cli.session import Session, session_of
from seqferry.cli.start_transfer import run_or_record
from seqferry.model.frozen import frozen
from seqferry.model.models import PlannedCopy, ResolvedSpec
from seqferry.model.option_groups import Filters
from seqferry.spec import identity
from seqferry.spec.option_groups import Endpoints, NameOptions, SelectionOptions, SpeedOptions
from seqferry.spec.pack import build_pack_spec
from seqferry.spec.validation import streaming_reason


@frozen
class PackingPlaces:
    """Source and archive."""

    PANEL: ClassVar = "Arguments"

    source: Annotated[
        str,
        typer.Argument(metavar="SRC", help="s3://bucket/prefix/ (everything below it) or a local folder."),
    ]
    target: Annotated[
        str,
        typer.Argument(metavar="TAR", help="s3://bucket/name.tar or a local file."),
    ]


@frozen
class ArchiveFormat:
    """Form of the archive."""

    PANEL: ClassVar = "Archive"

    split: Annotated[
        int | None,
        options.common(
            typer.Option(
                "--split",
                envvar="SEQFERRY_SPLIT",
                metavar="SIZE",
                parser=options.size,
                help="Split into archives of at most this size, as 100GiB: name-00000.tar and so on.",
            )
        ),
    ] = None
    no_index: Annotated[
        bool,
        options.common(
            typer.Option(
                "--no-index",
                envvar="SEQFERRY_PACK_NO_INDEX",
                help="Do not write name.tar.sfidx, the index for reading single members.",
            )
        ),
    ] = False
    part_size: Annotated[
        int | None,
        typer.Option(
            "--part-size",
            envvar="SEQFERRY_PART_SIZE",
            metavar="SIZE",
            parser=options.size,
            help="Part size of the upload, as 64MiB. It does not change the bytes of the archive.",
        ),
    ] = None
    storage_class: Annotated[
        str | None,
        typer.Option(
            "--storage-class", envvar="SEQFERRY_STORAGE_CLASS", metavar="NAME", help="Storage class of the archive."
        ),
    ] = None


def pack(
    packed: PackingPlaces,
    selection: SelectionOptions,
    filters: Filters,
    names: NameOptions,
    archive: ArchiveFormat,
    speed: SpeedOptions,
    endpoints: Endpoints,
    start: Start,
    pricing: Pricing,
    output: Output,
) -> int:
    """Pack a prefix or a folder into a tar archive.

    Large members are copied server-side if the endpoint allows it. The same input gives the same bytes. If a
    member changes during packing, it is reported and packing restarts once.
    """
    places = SourcesAndTarget(sources=[packed.source], target=packed.target)
    given = spec_arguments.build(places, selection, filters, names, archive, endpoints, together=True)
    spec = build_pack_spec(**given, allow_local=True)
    spec, price = identity.resolve(spec), pricing.check()
    with session_of(output, speed, check=spec, records=not start.dry_run) as session:
        if start.dry_run:
            return _preview(session, spec, price)
        return run_or_record(replace(session, price=price), spec, start, start.description)


def _preview(session: Session, spec: ResolvedSpec, price: str | None) -> int:
    """Shows the members, what is at the target already, and what the archive saves: one object instead of many."""
    from seqferry.preflight.forecast import Forecast  # it brings the engine, which --help need not wait for

    forecast = Forecast(spec)
    for planned in session.service.preview(spec, forecast.findings):
        forecast.add(planned)
        if session.as_json:
            _emit(spec, planned)
        elif planned.refusal is not None and not session.quiet:
            print(f"(dry run) {preview.describe_refusal(spec, planned)}")
        elif not session.quiet:
            print(f"(dry run) {_describe_action(spec, planned)}")
    members = forecast.objects + forecast.skipped
    estimate = session.service.estimate(forecast, price)
    if session.as_json:
        facts = {name: getattr(forecast, name) for name in ("compared", "skipped", "refused")}
        facts |= forecast.check_data()
        facts["estimate"] = preview.estimate_facts(estimate)
        display.emit("dry_run", objects=forecast.objects, bytes=forecast.bytes, **facts)
    elif not session.quiet:
        if (why := streaming_reason(spec)) is not None:
            display.say(f"The bytes would pass through the machine that does the work: {why}.")
        also = f"; {text.count(forecast.compared, 'member')} of them would be compared first" * bool(forecast.compared)
        also += f"; {text.count(forecast.skipped, 'member')} would be skipped" * bool(forecast.skipped)
        display.say(
            f"Dry run: {text.count(forecast.objects, 'member')}, {text.size(forecast.bytes)}{also}. The archive is one "
            "object: no lifecycle, version or permission of a single member, and a change of one means to pack again. "
            "Nothing was written."
        )
        if forecast.objects:
            display.say(preview.describe_estimate(estimate))
    if not session.as_json:
        preview.show_findings(forecast, is_listed=not session.quiet)
    if forecast.findings.causes:
        return exits.FAILED
    return exits.OK if members else exits.NOTHING


def _emit(spec: ResolvedSpec, planned: PlannedCopy) -> None:
    if planned.refusal is not None:
        facts = {"source_key": planned.source_key, "error_message": planned.refusal, "left_out": planned.left_out}
        display.emit("refused", **facts)
        return
    display.emit(
        "planned",
        source_key=planned.source_key,
        target_key=planned.target_key,
        name=planned.source_key.removeprefix(spec.strip),
        size=planned.size,
        action=planned.action,
        because=planned.reason,
    )


def _describe_action(spec: ResolvedSpec, planned: PlannedCopy) -> str:
    """One member of a dry run, as text."""
    source = text.printable(spec.source.at(planned.source_key))
    name = text.printable(planned.source_key.removeprefix(spec.strip))
    if planned.action == "skip":
        return f"skip {source}: {planned.reason}"
    verb = "pack" if planned.action == "copy" else planned.action
    why = "" if planned.because == "packed" else f" ({planned.reason})"
    return f"{verb} {source} as {name}{why}"
