"""Endpoint and identity of a transfer: resolved at submission, recorded without a secret, resolved again by the worker.

The settings that decide where (endpoint, region, certificates, variants of AWS endpoints) are taken as they were. The
identity is compared: ``Identity.proof`` is computed alike by the process that submits and by the one that works, from
the environment and the files of the AWS tools, without a request. Rules:
docs/develop/adr/20261123-places-and-identities.md.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from typing import Any, Final

from seqferry.model.errors import AccessError, errors_about
from seqferry.model.formatting import printable
from seqferry.model.locations import Access, Identity, LocalFolder, Location, S3Location
from seqferry.model.models import CheckedSpec, ResolvedSpec, TransferSpec
from seqferry.places import customer_keys, endpoints, profiles
from seqferry.spec import hosts, stored, validation

_PROOF_DIGITS: Final = 12
"""Hexadecimal digits of a SHA-256 that are kept: too few to find a key, enough to tell a site's identities apart."""

_OF_IDENTITY: Final = (
    "role_arn",
    "external_id",
    "credential_source",
    "web_identity_token_file",
    "sso_start_url",
    "sso_account_id",
    "sso_role_name",
    "credential_process",
    "login_session",
)
"""Settings of a profile that say whose credentials it gives."""

_AWS: Final = "https://s3.amazonaws.com"
"""AWS itself, where it is not the endpoint of this process."""

_PATH_STYLES: Final = {"path": True, "virtual": False}

_RENEWED: Final = "session"
"""The source of which the key may be replaced by a newer one of its account.

Proofs of profiles whose keys rotate do not change.
"""


def resolve(spec: TransferSpec) -> ResolvedSpec:
    """The spec with what the environment and the files of this process say of both places, checked.

    One that is resolved comes back as it is; of a checked one, only the places are checked again.

    Raises:
        UsageError: the spec makes no sense, or not with these places.
    """
    if isinstance(spec, ResolvedSpec):
        return spec
    found = resolve_places(spec)
    if isinstance(spec, CheckedSpec):
        validation.check_places(found)
    else:
        found = validation.validate_spec(found)
    return ResolvedSpec.of(found)


def resolve_places(spec: TransferSpec) -> TransferSpec:
    """The same without a check: for a spec that is only compared with another."""
    with errors_about("sse_c_copy_source_key", "sse_c_key"):
        source = resolve_place(spec.source)
    with errors_about("sse_c_key"):
        target = resolve_place(spec.target)
    return replace(spec, source=source, target=target)


def resolve_place(place: Location) -> Location:
    """The place with its endpoint, its region, and the identity of this process there."""
    if isinstance(place, LocalFolder) or place.access is not None:
        return place
    place = customer_keys.resolve_s3(place)
    profile = place.profile or _default_profile()
    settings = profiles.settings(profile)
    identity = _anonymous() if place.anonymous else _identity(place.profile)

    def setting(variable: str, name: str) -> str | None:
        return os.environ.get(variable) or settings.get(name)

    of_s3 = profiles.parse_nested(setting("AWS_S3", "s3") or "")
    of_environment = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    region = place.region or of_environment or profiles.region(profile)
    return replace(
        place,
        endpoint_url=endpoints.url(place) or None,
        region=region.strip() if region else None,
        profile=identity.profile,
        access=Access(
            identity,
            ca_bundle=setting("AWS_CA_BUNDLE", "ca_bundle"),
            fips=_is_true(setting("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint")),
            dual_stack=_is_true(
                of_s3.get("use_dualstack_endpoint") or setting("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint")
            ),
            accelerate=_is_true(of_s3.get("use_accelerate_endpoint")),
            path_style=_PATH_STYLES.get(of_s3.get("addressing_style", "").lower()),
            sign_bodies=_is_true(of_s3.get("payload_signing_enabled")),
        ),
    )


def with_own_profile(place: S3Location) -> S3Location:
    """The place with the profile of this process that has the recorded identity.

    Raises:
        AccessError: this process cannot be that identity.
    """
    if place.access is None:
        return place
    identity = place.access.identity
    if identity.source == "anonymous" or _identity(None).proof == identity.proof:
        return replace(place, profile=None)
    if identity.profile is not None and _of_profile(identity.profile).proof == identity.proof:
        return place
    raise AccessError(f"{place.uri} needs {describe(identity)}, and this process has other credentials.")


def unresolve(spec: TransferSpec) -> TransferSpec:
    """The spec without what this process itself would fill in: ``resolve`` the other way round.

    So a recorded spec can be compared with the policy as a request can: what is left names another endpoint or profile
    than those of this process.
    """
    return replace(spec, source=_unresolve_place(spec.source), target=_unresolve_place(spec.target))


def _unresolve_place(place: Location) -> Location:
    if isinstance(place, LocalFolder) or place.access is None:
        return place
    try:
        profile = with_own_profile(place).profile
    except AccessError:
        profile = place.profile
    url = endpoints.url(S3Location("", profile=profile)) or None
    named = place.endpoint_url or _AWS
    return replace(place, access=None, profile=profile, endpoint_url=None if named == (url or _AWS) else named)


def require(spec: TransferSpec) -> None:
    """Raise AccessError when this process cannot reach both places of a transfer as recorded."""
    for access in _of(spec):
        if (missing := _missing(access)) is not None:
            raise AccessError(f"The transfer waits for a worker with {missing}.")
    for name, proof in customer_keys.needs(spec):
        if (missing := customer_keys.find_missing(name, proof)) is not None:
            raise AccessError(f"The transfer waits for a worker with {missing}.")


def needs(spec: TransferSpec) -> str | None:
    """Requirements of a transfer on its worker, as JSON; None when any worker can run it.

    Each entry is a recorded access, or names features of the spec.
    """
    found = [asdict(access) for access in _of(spec) if access.identity.source != "anonymous" or access.ca_bundle]
    if features := stored.features(spec):
        # Also as an identity that no worker has: versions that do not know features then leave the transfer alone.
        unmatched = {"source": f"a newer version ({features[0]})", "proof": ""}
        found.append({"features": features, "identity": unmatched, "ca_bundle": None})
    for key in customer_keys.needs(spec):
        unmatched = {"source": "an SSE-C key", "proof": ""}
        found.append({"sse_c": list(key), "identity": unmatched, "ca_bundle": None})
    for folder in hosts.folders(spec):
        unmatched = {"source": "a folder of a host", "proof": ""}
        found.append({"folder": list(folder), "identity": unmatched, "ca_bundle": None})
    return json.dumps(found, sort_keys=True) if found else None


def lane(needs: str | None) -> str | None:
    """The name of the queues that only workers take from that have what is needed; None for those of all workers."""
    if needs is None:
        return None
    found = {
        json.dumps(
            one.get("features")
            or one.get("sse_c")
            or (["folder", *one["folder"]] if "folder" in one else [one["identity"]["proof"], one["ca_bundle"]])
        )
        for one in json.loads(needs)
    }
    return _digest(sorted(found))


def process_needs() -> str | None:
    """Needs of transfers that are submitted in this process without other options."""
    place = resolve_place(S3Location(""))
    return needs(TransferSpec(source=place, target=place))


def needed_folders(needs: str | None) -> list[hosts.HostFolder]:
    """Folders among the needs."""
    found = json.loads(needs) if needs is not None else ()
    return [(one["folder"][0], one["folder"][1]) for one in found if "folder" in one]


def find_unmet_need(needs: str | None) -> str | None:
    """The first need that this process does not meet, as text; None: it meets all. Folders are not checked."""
    for one in json.loads(needs) if needs is not None else ():
        if "features" in one:
            found = stored.find_unknown_feature(one["features"])
        elif "sse_c" in one:
            found = customer_keys.find_missing(*one["sse_c"])
        elif "folder" in one:
            found = None
        else:
            found = _missing(parse_access(one))
        if found is not None:
            return found
    return None


def parse_access(data: Mapping[str, Any]) -> Access:
    """The access that a JSON form describes, without fields of later versions."""

    def known_fields(found: Mapping[str, Any], of: type[Access | Identity]) -> dict[str, Any]:
        return {field.name: found[field.name] for field in fields(of) if field.name in found}

    found = known_fields(data, Access)
    found["identity"] = Identity(**known_fields(data["identity"], Identity))
    return Access(**found)


def describe(identity: Identity) -> str:
    """An identity for a person: ``profile lab``."""
    if identity.source == "profile":
        return f"profile {identity.profile}"
    return {
        "anonymous": "no credentials",
        "environment": f"the access key {identity.proof} of the environment",
        "session": f"the temporary access key {identity.proof} of the environment",
        "web_identity": f"the web identity role {identity.role}",
        "container": "the credentials of its container",
        "instance": "the credentials of its machine",
    }.get(identity.source, f"credentials of the kind {identity.source}")


def describe_here(identity: Identity) -> str:
    """An identity for the user whose environment this is: with the name of the access key, which is no secret."""
    key = os.environ.get("AWS_ACCESS_KEY_ID", "")
    known = identity.source in ("environment", "session") and identity.proof == _digest(["key", key])
    return describe(replace(identity, proof=printable(key)) if known else identity)


def renew_keys(spec: TransferSpec) -> TransferSpec:
    """The spec with the temporary keys that this process has now, where those of its account were recorded."""
    return replace(spec, source=_renew_place(spec.source), target=_renew_place(spec.target))


def _renew_place(place: Location) -> Location:
    if isinstance(place, LocalFolder) or place.access is None or place.access.identity.source != _RENEWED:
        return place
    now = _identity(None)
    same = now.source == _RENEWED and now.role is not None and now.role == place.access.identity.role
    return replace(place, access=replace(place.access, identity=now)) if same else place


def submission_digest(spec: TransferSpec) -> str:
    """Digest of a spec: equal for two specs that request the same with the same identities.

    Temporary keys of one account count as the same, since one may be the newer key of the other: ``identity_proofs``
    tells them apart. Of a key whose account is not known, only the key itself is the same.
    """
    form = _form(spec)
    for side in ("source", "target"):
        found = form[side].get("access")
        if found is not None and found["identity"]["source"] == _RENEWED and found["identity"].get("role"):
            found["identity"]["proof"] = ""
    return hashlib.sha256(json.dumps(form, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def _form(spec: TransferSpec) -> dict[str, Any]:
    """The spec as it is stored, without what changes nothing of what is requested."""
    form: dict[str, Any] = json.loads(stored.write(spec))
    # Ages mean the same when the command is given again; limits of speed and attempts, and a check of what is copied,
    # have no meaning for what is copied: the same command with other ones goes on as well.
    for name in ("as_of", "tpslimit", "preflight"):
        form.pop(name, None)
    for side in ("source", "target"):
        form[side].pop("attempts", None)
        form[side].pop("root", None)
    return form


def identity_proofs(spec: TransferSpec) -> list[str]:
    """Proofs of the identities at both places: equal for equal identities."""
    return [access.identity.proof for access in _of(spec)]


def _of(spec: TransferSpec) -> Iterable[Access]:
    places = (place for place in (spec.source, spec.target) if isinstance(place, S3Location))
    return (place.access for place in places if place.access is not None)


def _missing(access: Access) -> str | None:
    if access.ca_bundle is not None and not os.access(access.ca_bundle, os.F_OK):
        return f"the certificates {access.ca_bundle}"
    if not access.identity.proof:
        # Not known to be what this process has.
        return describe(access.identity)
    try:
        with_own_profile(S3Location("", profile=access.identity.profile, access=access))
    except AccessError:
        return describe(access.identity)
    return None


def _default_profile() -> str:
    return os.environ.get("AWS_PROFILE") or "default"


def _identity(profile: str | None) -> Identity:
    """Identity of this process, with or without ``--profile``, found in the order in which the engine looks."""
    if profile is not None:
        return _of_profile(profile)
    key, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if key and secret:
        if os.environ.get("AWS_SESSION_TOKEN"):
            return Identity("session", role=_account(key), proof=_digest(["key", key]))
        return Identity("environment", proof=_digest(["key", key]))
    of_profile = _of_profile(_default_profile())
    if of_profile.proof:
        return of_profile
    role = os.environ.get("AWS_ROLE_ARN")
    if role and os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return Identity("web_identity", role=role, proof=_digest(["web_identity", role]))
    if os.environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") or os.environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        return Identity("container", proof="container")
    return Identity("instance", proof="instance")


def _anonymous() -> Identity:
    return Identity("anonymous", proof="anonymous")


def _of_profile(profile: str) -> Identity:
    """The proof is empty when the profile gives no credentials."""
    settings = profiles.settings(profile)
    facts = _facts(profile, settings, frozenset())
    role = settings.get("role_arn") or settings.get("sso_role_name")
    return Identity("profile", profile=profile, role=role, proof=_proof(facts))


def _proof(facts: list[Any]) -> str:
    if not facts:
        return ""
    # A long-lived key is the same identity wherever it is found.
    return _digest(facts[0] if len(facts) == 1 and facts[0][0] == "key" else facts)


def _facts(profile: str, settings: Mapping[str, str], seen: frozenset[str]) -> list[Any]:
    facts: list[Any] = [[name, settings[name]] for name in _OF_IDENTITY if name in settings]
    if "sso_session" in settings:
        session = profiles.read_shared("sso-session", settings["sso_session"])
        facts.append(["sso_session", session.get("sso_start_url", settings["sso_session"])])
    source = settings.get("source_profile")
    if source is not None and source not in seen and source != profile:
        facts.append(["source", _facts(source, profiles.settings(source), seen | {profile})])
    if (key := settings.get("aws_access_key_id")) is not None:
        if "aws_session_token" in settings:
            # Rotated by the tool that writes them: the name of the profile and the account stay.
            facts.append(["session", profile, _account(key)])
        else:
            facts.append(["key", key])
    return facts


def _account(key: str) -> str | None:
    """The account that an access key of AWS belongs to, which is part of the key; None for keys of other services."""
    try:
        found = base64.b32decode(key[4:])[:6]
    except (binascii.Error, ValueError):
        return None
    if len(key) != 20 or len(found) < 6:
        return None
    return f"{(int.from_bytes(found, 'big') & 0x7FFFFFFFFF80) >> 7:012d}"


def _is_true(text: str | None) -> bool:
    return text is not None and text.strip().lower() == "true"


def _digest(facts: Any) -> str:
    text = "seqferry identity 1\n" + json.dumps(facts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_PROOF_DIGITS]
