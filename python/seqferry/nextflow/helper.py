"""``seqferry nextflow helper``: one process that lists, looks up, copies and removes for the Nextflow plugin.

A line of JSON on standard input is a request, ``{"id": 7, "op": "stat", "uri": "s3://b/k"}``; each gets lines with its
``id`` on standard output, the last of which has ``"end": true`` and either the answer or ``"error"``. Requests are
carried out side by side, and no more are read than may wait. The end of standard input, or a signal, ends the process:
what is being copied is given up first, with its uploads aborted.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import IO, Any, Final

from seqferry.engine.engine import Engine, ObjectInfo, version
from seqferry.model import exits
from seqferry.model.errors import SeqferryError, StorageError, UsageError
from seqferry.model.locations import LocalFolder, S3Location
from seqferry.model.models import ResolvedSpec
from seqferry.nextflow import shim_listing
from seqferry.nextflow.unrecorded import FailedObject, ListingEntry, TransferResult, UnrecordedTransfer
from seqferry.preflight import start
from seqferry.settings.config import Settings
from seqferry.spec import identity
from seqferry.spec.addresses import parse_uri
from seqferry.spec.build import build_spec

log: Final = logging.getLogger("seqferry.nextflow")

PROTOCOL: Final = 1
"""Raised when a request or an answer changes its meaning; the plugin refuses another one than its own."""

_CONCURRENT: Final = 64
"""Concurrent requests. Nextflow has up to 50 transfers under way."""

_WAITING: Final = 256
"""Limit of the requests that were read and have not ended."""

_PAGE: Final = 1000
"""Entries in one line of a listing."""

_NAMED: Final = 3
"""Failures that an error names."""

_DENIED: Final = frozenset({"AccessDenied", "Forbidden", "InvalidAccessKeyId", "SignatureDoesNotMatch"})
_MISSING: Final = frozenset({"NoSuchKey", "NoSuchBucket", "NotFound"})

Answer = dict[str, Any]


class Helper:
    """Carries out requests with one engine."""

    def __init__(self, engine: Engine, *, state_dir: str | None = None) -> None:
        """Args: ``state_dir`` records transfers of whole folders, which ``seqferry status`` then shows."""
        self._engine = engine
        self._state_dir = state_dir
        self._running = set[UnrecordedTransfer | subprocess.Popen[str]]()
        self._lock = threading.Lock()
        self._stopping = False
        self._operations: Final[Mapping[str, Callable[[Answer], Iterator[Answer]]]] = {
            "stat": self._stat,
            "list": self._list,
            "copy": self._copy,
            "delete": self._delete,
        }

    def stop(self) -> None:
        """Give up what is being copied."""
        with self._lock:
            self._stopping = True
            for each in self._running:
                if isinstance(each, UnrecordedTransfer):
                    each.stop()
                else:
                    each.terminate()

    def answer(self, request: Answer) -> Iterator[Answer]:
        """The answers to one request, without its id; the last one says how it ended."""
        try:
            operation = self._operations.get(request.get("op", ""))
            if operation is None:
                raise UsageError(f"The operation {request.get('op')!r} is not known.")
            yield from operation(request)
        except KeyError as missing:
            yield _error("usage", "", f"A request {request.get('op')!r} needs {missing}.")
        except StorageError as why:
            yield _error(_kind(why.error_class, why.error_code), why.error_code, why.message)
        except UsageError as why:
            yield _error("usage", "", why.message)
        except SeqferryError as why:
            yield _error("failed", why.code, why.message)
        except Exception as why:
            log.exception("request failed")
            yield _error("failed", type(why).__name__, str(why) or type(why).__name__)

    def _stat(self, request: Answer) -> Iterator[Answer]:
        place = _place(request["uri"])
        if place.key and not place.key.endswith("/"):
            found = self._engine.head(place, [place.key])[0]
            if found is not None:
                yield _end(kind="file", **_facts(found))
                return
            place = replace(place, key=f"{place.key}/")
        there = any(self._engine.list(place, limit=1))
        if not there and place.key == "":
            # An empty bucket is a folder; one that is not there, or is not ours, is an error.
            self._engine.check_bucket(place)
            there = True
        yield _end(kind="folder" if there else "none")

    def _list(self, request: Answer) -> Iterator[Answer]:
        place = _place(request["uri"])
        if place.key and not place.key.endswith("/"):
            place = replace(place, key=f"{place.key}/")
        page: list[Any] = []
        for entry in shim_listing.entries(self._engine, place, recursive=False):
            if isinstance(entry, str):
                page.append([entry])
            elif entry.key != place.key:  # else the marker of the folder itself
                page.append([entry.key[len(place.key) :], entry.size, entry.last_modified, entry.etag])
            if len(page) >= _PAGE:
                yield {"entries": page}
                page = []
        yield _end(entries=page)

    def _copy(self, request: Answer) -> Iterator[Answer]:
        below = bool(request.get("folder"))
        asked = build_spec(
            request["source"],
            request["target"],
            if_exists="overwrite" if request.get("replace", True) else "fail",
            # Tasks read it next.
            page_cache=True,
            below=below,
            allow_local=True,
            # Nextflow has resolved its globs: what it names is a key.
            raw=True,
            storage_class=request.get("storage_class") or None,
        )
        spec = identity.resolve(asked)
        if below and self._state_dir is not None:
            yield from self._run_recorded(request, self._state_dir)
            return
        known = None
        if not below and "etag" in request:
            known = ListingEntry(spec.source.key, int(request["size"]), str(request["etag"]))
        transfer = UnrecordedTransfer(self._engine, spec, known=known)
        with self._lock:
            if self._stopping:
                transfer.stop()
            self._running.add(transfer)
        try:
            result = transfer.run()
        finally:
            with self._lock:
                self._running.discard(transfer)
        yield self._end_of(spec, result, below=below)

    def _end_of(self, spec: ResolvedSpec, result: TransferResult, *, below: bool) -> Answer:
        if self._stopping:
            return _error("stopped", "", f"The copy of {spec.source.uri} was given up, since the helper was to stop.")
        if result.missing:
            return _error("missing", "NoSuchKey", str(start.missing_error(self._engine, spec)))
        if below and not result.found and not isinstance(spec.source, LocalFolder):
            return _error("missing", "NoSuchKey", f"There is no object below {spec.source.uri}.")
        if result.failed:
            first = result.failures[0]
            return _error(_kind_of(first), first.code, _describe(result))
        return _end(objects=result.done, bytes=result.bytes_done)

    def _run_recorded(self, request: Answer, state_dir: str) -> Iterator[Answer]:
        """Runs a recorded transfer as ``seqferry cp`` in another process, which keeps the database out of this one."""
        if_exists = "overwrite" if request.get("replace", True) else "fail"
        words = ["cp", "--quiet", "--raw", "--page-cache", "--if-exists", if_exists, "--state-dir", state_dir]
        source = request["source"]
        places = [source if source.endswith("/") else f"{source}/", request["target"]]
        with subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "seqferry", *words, "--", *places],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            with self._lock:
                self._running.add(process)
                if self._stopping:
                    process.terminate()
            try:
                _, said = process.communicate()
            finally:
                with self._lock:
                    self._running.discard(process)
        if process.returncode == exits.OK:
            yield _end()
            return
        cause = " ".join(line.strip() for line in said.splitlines()[-5:]) or f"exit code {process.returncode}"
        yield _error(
            "missing" if process.returncode == exits.NOTHING else "failed", "", f"seqferry cp of {source}: {cause}"
        )

    def _delete(self, request: Answer) -> Iterator[Answer]:
        place = _place(request["uri"])
        self._engine.delete(place, [(place.key, None)])
        yield _end()


def serve(requests: IO[str], answers: IO[str], helper: Helper) -> None:
    """Answer requests until there are no more."""
    lock, room = threading.Lock(), threading.Semaphore(_WAITING)

    def send(answer: Answer) -> None:
        line = json.dumps(answer, separators=(",", ":"))
        with lock:
            answers.write(line + "\n")
            answers.flush()

    def handle(request: Answer) -> None:
        try:
            for answer in helper.answer(request):
                send({"id": request.get("id"), **answer})
        except (BrokenPipeError, ValueError):
            helper.stop()  # the reader is gone
        finally:
            room.release()

    send({"protocol": PROTOCOL, "version": version()})
    with ThreadPoolExecutor(_CONCURRENT, "seqferry-helper") as pool:
        for line in requests:
            room.acquire()
            try:
                request: Answer = dict(json.loads(line))
            except (TypeError, ValueError) as why:
                send({"id": None, **_error("usage", "", f"A request cannot be read: {why}.")})
                room.release()
                continue
            pool.submit(handle, request)
        helper.stop()


def run() -> int:
    """The process; returns its exit code."""
    from seqferry.nextflow.session import StoppedError, on_signals

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    settings = Settings.load(with_tables=False)
    named = os.environ.get("SEQFERRY_STATE_DIR")
    helper = Helper(Engine.of(settings), state_dir=str(settings.state_dir) if named else None)

    def stop(number: int) -> None:
        helper.stop()
        raise StoppedError(number)  # out of the read that waits for the next request

    with on_signals(stop):
        try:
            serve(sys.stdin, sys.stdout, helper)
        except StoppedError as why:
            return 128 + why.number
    return 0


def _place(uri: str) -> S3Location:
    bucket, key = parse_uri(uri)
    return S3Location(bucket, key)


def _facts(found: ObjectInfo) -> Answer:
    return {"size": found.size, "modified": found.last_modified, "etag": found.etag}


def _end(**facts: Any) -> Answer:
    return {"end": True, **facts}


def _error(kind: str, code: str, message: str) -> Answer:
    return {"end": True, "error": {"kind": kind, "code": code, "message": message}}


def _kind(error_class: str, code: str) -> str:
    if code in _MISSING:
        return "missing"
    if code in _DENIED:
        return "denied"
    return "exists" if error_class == "exists" else "failed"


def _kind_of(failed: FailedObject) -> str:
    return "exists" if failed.error_class == "exists" else _kind("", failed.code)


def _describe(result: TransferResult) -> str:
    shown = "; ".join(f"{each.source}: {each.message}" for each in result.failures[:_NAMED])
    if result.failed == 1:
        return shown
    more = f" and {result.failed - _NAMED} more" if result.failed > _NAMED else ""
    return f"{result.failed} of {result.found} objects failed: {shown}{more}"
