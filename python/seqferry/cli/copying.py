"""``seqferry cp`` and ``seqferry sync``."""

from __future__ import annotations

import inspect
import itertools
from typing import Annotated, Any, Final, get_type_hints

import typer

from seqferry import access
from seqferry.cli import display, exits, options, pipes, text
from seqferry.cli.session import Session, actor, open_session
from seqferry.models import IfExists, Submission, Symlinks, TransferSpec, Verify
from seqferry.spec import build_spec, way, why_streamed


def cp(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SRC",
            help="s3://bucket/prefix/ (all below), s3://bucket/key, a local folder or file, - for standard input.",
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="DST",
            help="s3://bucket/prefix/ or a local folder; for one object also s3://bucket/key, a local file, or - for "
            "standard output.",
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "--dryrun", envvar="SEQFERRY_DRY_RUN", help="Show what would be looked at.")
    ] = False,
    if_exists: Annotated[
        IfExists,
        typer.Option(
            "--if-exists",
            envvar="SEQFERRY_IF_EXISTS",
            help="An object that exists at the target: same = skip when identical, else copy; skip = leave it; "
            "overwrite = copy always; fail = report it as failed.",
        ),
    ] = "same",
    verify: Annotated[
        Verify,
        typer.Option(
            "--verify",
            envvar="SEQFERRY_VERIFY",
            help="auto = the strongest evidence that needs no second read; checksum = a checksum or digest, "
            "where there is none both sides are read; content = both sides are always read.",
        ),
    ] = "auto",
    part_size: Annotated[
        int | None,
        typer.Option(
            "--part-size",
            envvar="SEQFERRY_PART_SIZE",
            metavar="SIZE",
            parser=options.size,
            help="Part size of big objects, as 64MiB. Default: chosen per object.",
        ),
    ] = None,
    copy_threshold: Annotated[
        int | None,
        typer.Option(
            "--copy-threshold",
            envvar="SEQFERRY_COPY_THRESHOLD",
            metavar="SIZE",
            parser=options.size,
            help="Objects up to this size are copied in one request. Default: 128MiB or what proves more; 16MiB for "
            "what passes through this machine.",
        ),
    ] = None,
    storage_class: Annotated[
        str | None,
        typer.Option(
            "--storage-class", envvar="SEQFERRY_STORAGE_CLASS", metavar="NAME", help="Storage class of the copies."
        ),
    ] = None,
    md5: Annotated[
        bool,
        typer.Option(
            "--md5",
            envvar="SEQFERRY_MD5",
            help="Keep the MD5 of each local file with its object (metadata md5chksum), as rclone does and checks it. "
            "Files that go in parts are read once more for it, before.",
        ),
    ] = False,
    symlinks: Annotated[
        Symlinks,
        typer.Option(
            "--symlinks",
            envvar="SEQFERRY_SYMLINKS",
            help="Links in a local folder: follow = copy what they lead to; skip = leave them out; keep = copy the "
            "links themselves, which a download with it makes again.",
        ),
    ] = "follow",
    empty_directories: Annotated[
        bool,
        typer.Option(
            "--empty-directories",
            envvar="SEQFERRY_EMPTY_DIRECTORIES",
            help="Keep the empty folders of a local folder as empty objects with a last slash.",
        ),
    ] = False,
    page_cache: Annotated[
        bool,
        typer.Option(
            "--page-cache",
            envvar="SEQFERRY_PAGE_CACHE",
            help="Leave downloads in the system's page cache, for a program that reads them next. Otherwise large ones "
            "pass it, which takes less CPU and leaves it to others.",
        ),
    ] = False,
    preserve_permissions: Annotated[
        bool,
        typer.Option(
            "--preserve-permissions",
            envvar="SEQFERRY_PRESERVE_PERMISSIONS",
            help="Give downloads the permissions that are kept with their objects, whatever the umask says. Otherwise "
            "those only narrow what a new file gets. Setuid, setgid and sticky bits are never set.",
        ),
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", envvar="SEQFERRY_DETACH", help="Record the transfer, print its id and return.")
    ] = False,
    new: Annotated[
        bool,
        typer.Option(
            "--new",
            envvar="SEQFERRY_NEW",
            help="Start another transfer though the same one is unfinished; it waits for that one's end. Otherwise "
            "the same command goes on with the unfinished transfer.",
        ),
    ] = False,
    max_requests: options.MaxRequests = None,
    max_bandwidth: options.MaxBandwidth = None,
    memory: options.Memory = None,
    endpoint_url: options.EndpointUrl = None,
    source_endpoint_url: options.SourceEndpointUrl = None,
    target_endpoint_url: options.TargetEndpointUrl = None,
    profile: options.Profile = None,
    source_profile: options.SourceProfile = None,
    target_profile: options.TargetProfile = None,
    region: options.Region = None,
    source_region: options.SourceRegion = None,
    target_region: options.TargetRegion = None,
    no_sign_request: options.NoSignRequest = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    no_progress: options.NoProgress = False,
    state_dir: options.StateDir = None,
) -> int:
    """Copy objects between S3 places, or between S3 and local files, durably and verified.

    Within one S3 endpoint the storage itself copies the data; else it passes through this machine, checked on the way.
    """
    return _copy(locals())


def sync(
    delete: Annotated[
        bool,
        typer.Option(
            "--delete",
            envvar="SEQFERRY_DELETE",
            help="Once all has arrived, remove what is at DST and not at SRC.",
        ),
    ] = False,
    max_delete: Annotated[
        int | None,
        typer.Option(
            "--max-delete",
            envvar="SEQFERRY_MAX_DELETE",
            metavar="N",
            min=0,
            help="Remove nothing if more than N objects would be.",
        ),
    ] = None,
    **as_cp: Any,
) -> int:
    """Make DST hold what is below SRC: cp of a prefix or a folder that can also remove.

    Objects that are there and identical are left alone; nothing is removed without --delete.
    """
    return _copy({**as_cp, "delete": delete, "max_delete": max_delete, "below": True})


def _with_options_of_cp() -> None:
    """Let ``sync`` have all parameters of ``cp`` before its own, written once."""
    kinds = {**get_type_hints(cp, include_extras=True), **get_type_hints(sync, include_extras=True)}
    parameters = {**inspect.signature(cp).parameters, **inspect.signature(sync).parameters}
    taken = [
        each.replace(annotation=kinds[name])
        for name, each in parameters.items()
        if each.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    sync.__signature__ = inspect.Signature(taken, return_annotation=int)  # type: ignore[attr-defined]
    sync.__annotations__ = {each.name: each.annotation for each in taken}


_with_options_of_cp()

_OF_SPEC: Final = frozenset(inspect.signature(build_spec).parameters)


def _copy(given: dict[str, Any]) -> int:
    """Options of ``cp`` or ``sync``, by the names of their parameters, to the exit code."""
    of_spec = {name: value for name, value in given.items() if name in _OF_SPEC}
    spec = None
    if pipes.is_asked_for(given):
        pipes.check(given)
    else:
        spec = access.resolved(build_spec(**of_spec, allow_local=True))
    with open_session(
        as_json=given["as_json"],
        quiet=given["quiet"],
        progress=not given["no_progress"],
        state_dir=given["state_dir"],
        max_requests=given["max_requests"],
        max_bandwidth=given["max_bandwidth"],
        memory=given["memory"],
        check=spec,
    ) as session:
        if spec is None:
            return pipes.copy(session, of_spec)
        if given["dry_run"]:
            return _preview(session, spec)
        if given["detach"]:
            return _detached(session, session.service.submission(spec, actor=actor(), new=given["new"]))
        return session.copy(spec, new=given["new"])


def _detached(session: Session, submission: Submission) -> int:
    transfer_id = submission.id
    if session.as_json:
        display.emit("submitted", id=transfer_id)
    else:
        print(transfer_id, flush=True)
    session.tell_of_submission(submission)
    if not session.quiet and not submission.goes_on:
        display.say("Recorded. A running `seqferry worker` or `seqferry serve` does it; if none runs, start one.")
        display.say(f"  watch:  {session.command('status', transfer_id, '--watch')}")
        display.say(f"  cancel: {session.command('cancel', transfer_id)}")
    return exits.OK


def _preview(session: Session, spec: TransferSpec) -> int:
    """Shows what would be looked at. What is identical at the target is found out only by the transfer itself."""
    met = objects = total = refused = 0
    for planned in session.service.preview(spec):
        met += 1
        if planned.refusal is not None:
            refused += not planned.left_out
            if session.as_json:
                display.emit(
                    "refused",
                    source_key=planned.source_key,
                    error_message=planned.refusal,
                    left_out=planned.left_out,
                )
            else:
                display.say(text.printable(f"{spec.source.at(planned.source_key)}: {planned.refusal}"))
            continue
        objects += 1
        total += planned.size
        if session.as_json:
            display.emit("planned", source_key=planned.source_key, target_key=planned.target_key, size=planned.size)
        elif not session.quiet:
            source = text.printable(spec.source.at(planned.source_key))
            target = text.printable(spec.target.at(planned.target_key))
            print(f"(dry run) copy {source} to {target}")
    removed = 0
    kept = None
    if spec.delete and not met:
        kept = f"Nothing is at {spec.source.uri}, and --delete would remove all of {spec.target.uri}: that is refused."
    elif spec.delete and refused:
        kept = "Nothing is removed when not all can arrive."
    unwanted = session.service.preview_removal(spec) if kept is None else iter(())
    if spec.max_delete is not None:
        first = list(itertools.islice(unwanted, spec.max_delete + 1))
        unwanted = iter(first)
        if len(first) > spec.max_delete:
            kept = (
                f"More than {spec.max_delete} objects at {spec.target.uri} are not in the source: none is removed then."
            )
            unwanted = iter(())
    for key in unwanted:
        removed += 1
        if session.as_json:
            display.emit("planned_removal", target_key=key)
        elif not session.quiet:
            print(f"(dry run) remove {text.printable(spec.target.at(key))}")
    free = session.service.free_space(spec)
    if session.as_json:
        display.emit("dry_run", objects=objects, bytes=total, removed=removed, way=way(spec), free_bytes=free)
    elif not session.quiet:
        if (why := why_streamed(spec)) is not None:
            display.say(f"The bytes would pass through the machine that does the work: {why}.")
        if free is not None and free < total:
            display.say(f"{text.printable(spec.target.container)} has only {text.size(free)} free.")
        also = f", {text.count(removed, 'object')} to remove" if removed else ""
        display.say(
            f"Dry run: {text.count(objects, 'object')}, {text.size(total)}{also}. Nothing was copied or recorded."
        )
    if kept is not None:
        display.say(text.printable(kept))
    if refused or kept is not None:
        return exits.FAILED
    return exits.OK if objects else exits.NOTHING
