"""The policy of a server: places and identities that its clients may name. Commands on this machine are not bound."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from seqferry.model.errors import PolicyError, UsageError, errors_about
from seqferry.model.frozen import frozen
from seqferry.model.locations import LocalFolder, Location, S3Location
from seqferry.model.models import TransferSpec
from seqferry.places import customer_keys, endpoints, paths

_REFUSED: Final = tuple(
    ipaddress.ip_network(text)
    for text in (
        "169.254.0.0/16",  # link-local; the metadata services of AWS, Azure, Google Cloud and others
        "fe80::/10",  # link-local
        "fd00:ec2::/32",  # AWS: metadata (::254), credentials of pods (::23)
        "fd20:ce::254/128",  # Google Cloud
        "100.100.100.200/32",  # Alibaba Cloud
        "168.63.129.16/32",  # Azure
        "192.0.0.192/32",  # Oracle Cloud
    )
)
"""Never contacted for a client: services there hand out credentials to whatever asks from this machine."""

_ANYWHERE: Final = "s3://"
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_ALLOWED: Final = "The operator of the server can allow it in its configuration file ([server] {})."


@frozen
class Policy:
    """Places that clients of the server may name. The endpoint and the identity of its process are always among them.

    Attributes:
        endpoints: URLs besides the configured one.
        profiles: AWS profiles besides the configured one.
        read, write: starts of ``s3://bucket/key`` below which a source, or a target, has to lie; and folders of this
            machine, with their last slash.
        most_schedules: schedules that one token may have.
        schedule_interval: seconds between two times of a schedule at least.
    """

    endpoints: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    read: tuple[str, ...] = (_ANYWHERE,)
    write: tuple[str, ...] = (_ANYWHERE,)
    most_schedules: int = 100
    schedule_interval: float = 60.0

    def __str__(self) -> str:
        """The policy as text for the log."""
        endpoints = ", ".join(("the configured one", *self.endpoints))
        profiles = ", ".join(("the configured one", *self.profiles))
        return (
            f"read below {', '.join(self.read) or 'nothing'}; write below {', '.join(self.write) or 'nothing'}; "
            f"endpoints: {endpoints}; profiles: {profiles}; {self.most_schedules} schedules for each token, "
            f"{self.schedule_interval:g} s apart"
        )

    @property
    def confines_writes(self) -> bool:
        """True when clients may write only to a part of the places that the server could write to."""
        return _ANYWHERE not in self.write

    def check(self, spec: TransferSpec) -> None:
        """Refuse what a client may not ask for; contacts nothing and resolves no name.

        Raises:
            PolicyError: the policy does not allow the spec.
        """
        customer_keys.check_for_client(spec)
        for side, place in (("source", spec.source), ("target", spec.target)):
            if not isinstance(place, LocalFolder):
                self.check_access(place, side)
        self._check_folders(spec)
        self.check_places(spec)

    @property
    def names_folders(self) -> bool:
        """True where clients may read or write folders of this machine."""
        return any(not one.startswith(_ANYWHERE) for one in (*self.read, *self.write))

    def check_schedules(self, count: int) -> None:
        """Refuse a further schedule of a client that has so many.

        Raises:
            PolicyError: no more are allowed.
        """
        if count >= self.most_schedules:
            raise PolicyError(
                f"This token has {count} schedules, and no more are allowed. Remove one first. "
                f"{_ALLOWED.format('most_schedules')}"
            )

    def interval_fault(self, seconds: float) -> str | None:
        """Reason why ``seconds`` between two runs of a client's schedule are too few; None if they are not."""
        if seconds >= self.schedule_interval:
            return None
        return f"two of its times are {seconds:g} s apart, and {self.schedule_interval:g} s are the least for clients"

    def check_paths(self, source: str | Sequence[str], target: str) -> None:
        """Refuse paths that a client may not name, before they are read.

        Raises:
            PolicyError: the policy does not allow one.
            UsageError: it is not absolute.
        """
        sources = [source] if isinstance(source, str) else source
        for act, allowed, side, path in (
            *(("read", self.read, "source", one) for one in sources if paths.is_local(one)),
            *(("write", self.write, "target", one) for one in (target,) if paths.is_local(one)),
        ):
            if not path.startswith("/"):
                raise UsageError(
                    f"'{path[:200]}' is no absolute path; write s3://bucket/key, or a folder that this server allows."
                ).about(side)
            with errors_about(side):
                _check_folder(act, allowed, path)

    def _check_folders(self, spec: TransferSpec) -> None:
        read = [("read", self.read, "source", spec.source)] if not spec.kind.verifies_record else []
        removed = [("write", self.write, "source", spec.source)] if spec.kind.removes_sources else []
        for act, allowed, side, place in (*read, ("write", self.write, "target", spec.target), *removed):
            if isinstance(place, LocalFolder):
                with errors_about(side):
                    _check_folder(act, allowed, place.uri)

    def check_browse(self, place: S3Location) -> None:
        """Refuse to list a location that a client may not read, or not with this endpoint or profile.

        Raises:
            PolicyError: the policy does not allow it.
        """
        self.check_access(place)
        with errors_about("source"):
            _check_below("read", self.read, place, [place.key])

    @property
    def roots(self) -> tuple[str, ...]:
        """Locations that clients may read, if the policy names them; empty if it allows all buckets."""
        return () if _ANYWHERE in self.read else tuple(one for one in self.read if one.startswith(_ANYWHERE))

    def may_list(self, bucket: str) -> bool:
        """True if clients may see the name of the bucket: they may read all objects in it."""
        return any(f"s3://{bucket}/".startswith(start) for start in self.read)

    def check_access(self, place: S3Location, side: str = "source") -> None:
        """Refuse an endpoint or a profile that a client may not name; ``side`` is that of its options.

        Raises:
            PolicyError: the policy does not allow it.
        """
        if place.endpoint_url is not None:
            with errors_about(f"{side}_endpoint_url", "endpoint_url"):
                self._check_endpoint(place.endpoint_url)
        own_profile = os.environ.get("AWS_PROFILE")
        if place.profile is not None and place.profile != own_profile and place.profile not in self.profiles:
            raise PolicyError(
                f"This server does not act with the profile '{place.profile}'. {_ALLOWED.format('profiles')}"
            ).about(f"{side}_profile", "profile")

    def check_places(self, spec: TransferSpec) -> None:
        """Refuse places that a client may not read or write; the part of ``check`` that no environment changes.

        Raises:
            PolicyError: the policy does not allow the spec.
        """
        if spec.kind.verifies_record:
            # What clients may write, they may look at again where it was written.
            with errors_about("target"):
                _check_below("write", self.write, spec.target, [spec.target.key])
            return
        named = [spec.source.key + key for key in spec.keys or ()] + [one.key for one in spec.ranges]
        with errors_about("source"):
            _check_below("read", self.read, spec.source, [spec.source.key, *named])
        if spec.inventory is not None:
            bucket, _, key = spec.inventory.removeprefix("s3://").partition("/")
            # Its files lie beside the folder of the manifest.
            above = "".join(f"{part}/" for part in key.split("/")[:-2])
            with errors_about("inventory"):
                _check_below("read", self.read, S3Location(bucket, above), [key])
        if spec.kind.removes_sources:
            # What has arrived is removed there.
            with errors_about("source"):
                _check_below("write", self.write, spec.source, [spec.source.key, *named])
        # Each goes to the target without the start that is stripped. What is listed there is not known here:
        # planning refuses names that lead out of what may be written (``find_refusal``).
        targets = [spec.target.key + key.removeprefix(spec.strip) for key in named]
        targets += [spec.target.key + name for name in (*spec.targets, *(one.into for one in spec.ranges))]
        with errors_about("target"):
            _check_below("write", self.write, spec.target, [spec.target.key, *targets])

    def _check_endpoint(self, url: str) -> None:
        refuse_address(_host(url), url)
        own = endpoints.resolve(S3Location(bucket=""))
        asked = endpoints.resolve(S3Location(bucket="", endpoint_url=url))
        # All hosts of AWS have one spelling, and some belong to other customers: those are compared as written.
        if asked is not None and "://" in asked:
            allowed = asked == own or asked in {
                endpoints.resolve(S3Location("", endpoint_url=one)) for one in self.endpoints
            }
        else:
            allowed = url.lower().rstrip("/") in {one.lower().rstrip("/") for one in self.endpoints}
        if not allowed:
            raise PolicyError(
                f"This server does not contact the endpoint {url}; nothing was sent there. "
                f"{_ALLOWED.format('endpoints')}"
            )


def find_refusal(target: S3Location, key: str) -> tuple[str, str] | None:
    """Refusal of a client's object at this key where writes are confined, as code and message; None when allowed."""
    if not leads_out(key):
        return None
    why = f"{target.at(key)} has '.' or '..' between slashes, which some storages take for folders"
    return "DotSegment", f"{why}: this server writes no such keys for clients, but below what it allows them only."


def leads_out(key: str) -> bool:
    """True when a storage that takes keys for paths would store the object elsewhere than its key says."""
    return not {".", ".."}.isdisjoint(key.split("/"))


def check_addresses(spec: TransferSpec) -> None:
    """Refuse endpoints whose names lead to addresses that are never contacted. Asks the resolver, which may take long.

    Raises:
        PolicyError: an endpoint leads to such an address.
    """
    for side, place in (("source", spec.source), ("target", spec.target)):
        url = endpoints.resolve(place) if isinstance(place, S3Location) else None
        if url is None or "://" not in url:
            continue
        host = _host(url)
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            # The engine says what is wrong with the name.
            continue
        for *_, address in found:
            with errors_about(f"{side}_endpoint_url", "endpoint_url", side):
                refuse_address(str(address[0]), url)


def refuse_address(host: str, url: str) -> None:
    """Raise PolicyError when ``host`` is an address that is never contacted for a client. Names pass."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        address = inner or address
    if any(address in network for network in _REFUSED if network.version == address.version):
        raise PolicyError(
            f"The endpoint {url} is a link-local or metadata address, which a server never contacts for a client."
        )


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _check_folder(act: str, allowed: tuple[str, ...], path: str) -> None:
    """Raise PolicyError unless the file or folder lies in one that clients may use, wherever links lead."""
    roots = [one for one in allowed if not one.startswith(_ANYWHERE)]
    if "\0" in path or leads_out(path) or not paths.is_below(path, roots):
        raise PolicyError(f"This server does not {act} {path[:200]} for clients. {_ALLOWED.format(act)}")


def _check_below(act: str, allowed: tuple[str, ...], place: Location, keys: list[str]) -> None:
    if isinstance(place, LocalFolder):
        return
    fitting = [start for start in allowed if place.uri.startswith(start)]
    if not fitting:
        raise PolicyError(f"This server does not {act} {place.uri} for clients. {_ALLOWED.format(act)}")
    # A storage that takes keys for paths would lead out of an allowed prefix, and of an allowed bucket as well.
    if _ANYWHERE not in allowed and any(map(leads_out, keys)):
        raise PolicyError(f"This server does not {act} keys with '.' or '..' between slashes below {fitting[0]}.")
