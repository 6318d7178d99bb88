"""What happens to one object is decided in one place, without a storage."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import pytest

from seqferry.engine.engine import FailedLookup
from seqferry.engine.lookups import too_long
from seqferry.model.errors import StorageError
from seqferry.model.locations import LocalFolder, S3Location
from seqferry.model.messages import steps
from seqferry.model.models import FailureGroup, TransferSpec
from seqferry.planning import decision, removal_rules

SPEC = TransferSpec(S3Location("from", "run/"), S3Location("to", "in/"), strip="run/")
PLAIN = "d41d8cd98f00b204e9800998ecf8427e"
OTHER = "900150983cd24fb0d6963f7d28e17f72"


@dataclass(frozen=True)
class FoundObject:
    key: str
    size: int = 3
    etag: str = PLAIN
    last_modified: float = 0.0
    version_id: str | None = None
    refusal: tuple[str, str] | None = None


def test_an_object_goes_below_the_target() -> None:
    assert decision.decide(SPEC, FoundObject("run/a")) == decision.Decision("copy", "in/a")


@pytest.mark.parametrize(
    ("etag", "there", "action"),
    [
        (PLAIN, FoundObject("in/a"), "skip"),
        (PLAIN, FoundObject("in/a", size=4), "copy"),
        (PLAIN, FoundObject("in/a", etag=OTHER), "copy"),
        (PLAIN, None, "copy"),
        (f"{PLAIN}-3", FoundObject("in/a", etag=f"{PLAIN}-3"), "skip"),
        (f"{PLAIN}-3", FoundObject("in/a", etag=f"{PLAIN}-4"), "copy"),
        ("opaque", FoundObject("in/a", etag="opaque"), "copy"),
        ("", FoundObject("in/a", etag=""), "copy"),
        (PLAIN, FoundObject("in/a", refusal=("SymlinkSkipped", "it is a link")), "copy"),
    ],
)
def test_equal_digests_in_both_listings_are_enough_to_skip(etag: str, there: FoundObject | None, action: str) -> None:
    decided = decision.decide(SPEC, FoundObject("run/a", etag=etag), there=there)

    assert (decided.action, decided.verified) == (action, "etag" if action == "skip" else None)


@pytest.mark.parametrize("spec", [SPEC, replace(SPEC, target=LocalFolder("/data/run"))])
@pytest.mark.parametrize(
    ("rule", "there", "verified"),
    [
        ("size", FoundObject("in/a", etag=OTHER), "size"),
        ("size", FoundObject("in/a", size=4), None),
        ("size", FoundObject("in/a", refusal=("SpecialFile", "a pipe")), None),
        ("size", None, None),
        ("skip", FoundObject("in/a", size=4, etag=OTHER), "none"),
        ("skip", FoundObject("in/a", refusal=("SpecialFile", "a pipe")), None),
        ("skip", None, None),
    ],
)
def test_sizes_and_presence_are_taken_from_listings_of_buckets_and_disks(
    spec: TransferSpec, rule: str, there: FoundObject | None, verified: str | None
) -> None:
    decided = decision.decide(spec.with_options(if_exists=rule), FoundObject("run/a"), there=there)

    assert (decided.action, decided.verified) == ("copy" if verified is None else "skip", verified)


@pytest.mark.parametrize(
    ("spec", "compares"),
    [
        (SPEC, True),
        (SPEC.with_options(if_exists="overwrite"), False),
        (SPEC.with_options(if_exists="skip"), True),
        (SPEC.with_options(if_exists="fail"), False),
        (SPEC.with_options(verify="checksum"), False),
        (SPEC.with_options(verify="content"), False),
        (replace(SPEC, source=LocalFolder("/data/run")), False),
        (replace(SPEC, target=LocalFolder("/data/run")), False),
        (replace(SPEC, source=LocalFolder("/data/run")).with_options(if_exists="size"), True),
        (replace(SPEC, target=LocalFolder("/data/run")).with_options(if_exists="skip"), True),
    ],
)
def test_listings_are_compared_only_where_that_is_what_was_asked_for(spec: TransferSpec, compares: bool) -> None:
    assert decision.compares_listings(spec) == compares


@pytest.mark.parametrize(
    ("target", "found", "action", "code"),
    [
        (S3Location("to", "in/"), FoundObject("run/a", refusal=("SpecialFile", "a pipe")), "leave_out", "SpecialFile"),
        (S3Location("to", "in/"), FoundObject("run/a", refusal=("Unreadable", "no")), "refuse", "Unreadable"),
        (S3Location("to", ""), FoundObject("run/", size=0), "ignore", None),
        (S3Location("to", ""), FoundObject("run/", size=1), "refuse", "EmptyTargetKey"),
        (S3Location("to", "x" * 1020), FoundObject("run/abcde"), "refuse", "TargetKeyTooLong"),
        (LocalFolder("/data"), FoundObject("run/a/../b"), "refuse", "DotSegment"),
        (LocalFolder("/data"), FoundObject("run/\udcff" + "a" * 255), "refuse", "NameTooLong"),
        (LocalFolder("/state"), FoundObject("run/records.db"), "leave_out", "StateFolder"),
    ],
)
def test_what_cannot_go_is_refused_and_what_nobody_meant_is_left_out(
    target: S3Location | LocalFolder, found: FoundObject, action: str, code: str | None
) -> None:
    decided = decision.decide(replace(SPEC, target=target), found, rules=decision.KeyRules("/state"))

    assert (decided.action, decided.code) == (action, code)
    assert (decided.reason is None) == (code is None)


def _refused(target: S3Location | LocalFolder, key: str, **names: object) -> decision.Decision:
    return decision.decide(replace(SPEC.with_options(**names), target=target), FoundObject(key, size=1))


_TO = S3Location("to", "in/")
_TOO_LONG = StorageError(too_long("x" * 2000), "object", "KeyTooLongError", "HeadObject")


@pytest.mark.parametrize(
    "refused",
    [
        pytest.param(_refused(S3Location("to", ""), "run/"), id="no name is left"),
        pytest.param(_refused(S3Location("to", "x" * 1020), "run/abcde"), id="a target key that is too long"),
        pytest.param(_refused(_TO, "run/a/b", rename=("s/a/../",)), id="a rule that leads out"),
        pytest.param(_refused(S3Location("from", ""), "run/run/a"), id="a target inside of the source"),
        pytest.param(decision.missing_member(replace(SPEC, source=S3Location("b", "x.tar")), "a"), id="no such member"),
        pytest.param(decision.decide_versions(SPEC, "run/a", "in/a", [(1, OTHER)], [(3, PLAIN)])[0], id="versions"),
        pytest.param(decision.decide(SPEC, FailedLookup.absent(SPEC.source, "run/a")), id="no such object"),
        pytest.param(decision.decide(SPEC, FailedLookup.absent(SPEC.source, "run/a", "v1")), id="no such version"),
        pytest.param(decision.decide(SPEC, FailedLookup.absent(LocalFolder("/d"), "a")), id="no such file"),
        pytest.param(decision.decide(SPEC, FailedLookup.of("x" * 2000, _TOO_LONG)), id="a key that is too long"),
    ],
)
def test_what_is_refused_says_once_what_to_do(refused: decision.Decision) -> None:
    assert refused.action == "refuse"
    assert refused.reason is not None
    group = FailureGroup("object", refused.code or "", "plan", refused.reason, 1, ("run/a",))
    why, found = steps.split_next_step(refused.reason)

    assert found == steps.step_code(group), "the step of the message is the only one"
    assert why.endswith(".")
    step = steps.command_step(found, retry="seqferry retry 3f2a")
    assert step == refused.reason.removeprefix(f"{why} ")


def test_nothing_is_removed_for_a_source_that_is_empty_or_did_not_arrive() -> None:
    spec = SPEC.with_options(delete=True, max_delete=2)

    empty, failed = (
        removal_rules.refuse_incomplete_source(spec, 0, 0),
        removal_rules.refuse_incomplete_source(spec, 5, 1),
    )
    assert empty is not None
    assert failed is not None
    assert (empty.code, empty.is_failure) == ("EmptySource", True)
    assert (failed.code, failed.is_failure) == ("NotAllArrived", False)
    assert removal_rules.refuse_incomplete_source(spec, 5, 0) is None
    assert [removal_rules.refuse_over_max_delete(spec, found) is None for found in (0, 2, 3)] == [True, True, False]
    assert removal_rules.refuse_over_max_delete(spec.with_options(max_delete=None), 10**6) is None


@pytest.mark.parametrize(
    ("key", "rules", "code"),
    [
        ("run/x/../a", decision.KeyRules(), None),
        ("run/x/../a", decision.KeyRules(confined=True), "DotSegment"),
        ("run/x/..a", decision.KeyRules(confined=True), None),
        ("run/a\0b", decision.KeyRules(), None),
        ("run/a\0b", decision.KeyRules(nul=False), "NulInKey"),
    ],
)
@pytest.mark.parametrize("operation", ["transfer", "move", "history", "pack", "unpack"])
def test_rules_of_the_process_and_of_its_client_refuse_names(
    key: str, rules: decision.KeyRules, code: str | None, operation: str
) -> None:
    spec = replace(SPEC, operation=operation)

    decided = decision.decide_names(spec, key, f"in/{key.removeprefix('run/')}", 3, None, rules)

    assert (decided.action, decided.code) == ("copy" if code is None else "refuse", code)
    assert "\0" not in (decided.reason or "")


def test_only_objects_of_the_target_are_removed() -> None:
    disk = replace(SPEC, target=LocalFolder("/state/.."), strip="run/")

    assert removal_rules.removable_key(SPEC, FoundObject("in/d/f"), "/state") == "run/d/f"
    assert removal_rules.removable_key(SPEC, FoundObject("in/d/f", refusal=("SpecialFile", "a pipe")), "/state") is None
    assert (
        removal_rules.removable_key(replace(disk, target=LocalFolder("/")), FoundObject("state/records.db"), "/state")
        is None
    )


VERSIONS = [(3, PLAIN), (9, f"{PLAIN}-2"), (4, OTHER)]


@pytest.mark.parametrize(
    ("there", "verified"),
    [
        ([], [None, None, None]),
        (VERSIONS[:1], ["etag", None, None]),
        (VERSIONS, ["etag", "etag", "etag"]),
        ([VERSIONS[0], (9, f"{OTHER}-3")], ["etag", "size", None]),
        ([VERSIONS[0], (9, OTHER)], ["etag", "size", None]),
    ],
)
def test_versions_that_the_target_has_are_skipped_with_what_that_rests_on(
    there: list[tuple[int, str]], verified: list[str | None]
) -> None:
    decisions = decision.decide_versions(SPEC, "run/a", "in/a", VERSIONS, there)

    assert [one.verified for one in decisions] == verified
    assert [one.action for one in decisions] == ["copy" if one is None else "skip" for one in verified]
    assert [one.target_etag for one in decisions] == [*(etag for _, etag in there), *[None] * (3 - len(there))]


@pytest.mark.parametrize(
    "there",
    [
        pytest.param([(3, OTHER)], id="other bytes"),
        pytest.param([(4, f"{PLAIN}-2")], id="other size"),
        pytest.param(VERSIONS[1:], id="the first one is gone"),
        pytest.param([*VERSIONS, (1, PLAIN)], id="one more"),
    ],
)
def test_no_version_is_copied_on_top_of_another_history(there: list[tuple[int, str]]) -> None:
    decisions = decision.decide_versions(SPEC, "run/a", "in/a", VERSIONS, there)

    assert {(one.action, one.code) for one in decisions} == {("refuse", "OtherHistory")}
    assert len(decisions) == 3


def test_an_object_that_is_equal_under_another_etag_keeps_that_etag_on_record() -> None:
    [one_part] = [f"{hashlib.md5(bytes.fromhex(PLAIN), usedforsecurity=False).hexdigest()}-1"]

    decided = decision.decide(SPEC, FoundObject("run/a"), there=FoundObject("in/a", etag=one_part))

    assert (decided.action, decided.verified, decided.target_etag) == ("skip", "etag", one_part)


def test_what_could_not_be_looked_at_or_changed_its_name_forbids_a_removal() -> None:
    assert removal_rules.refuse_unseen_folders([]) is None
    hidden = removal_rules.refuse_unseen_folders(["/a", "/b", "/c", "/d"])
    assert hidden is not None
    assert (hidden.code, hidden.is_failure) == ("NotLookedAt", True)
    assert "/a, /b, /c and more" in hidden.reason
    assert [
        removal_rules.hides_objects(FoundObject("d/", refusal=(code, "why"))) for code in ("Unreadable", "SpecialFile")
    ] == [True, False]
    assert removal_rules.refuse_changed_names(SPEC, 0) is None
    changed = removal_rules.refuse_changed_names(SPEC, 2)
    assert changed is not None
    assert (changed.code, changed.is_failure) == ("NamesChanged", True)


@dataclass(frozen=True)
class PresentCopy(FoundObject):
    changed: float = 0.0


@dataclass(frozen=True)
class RecordedCopy:
    size: int = 3
    target_etag: str | None = PLAIN
    target_version_id: str | None = None
    ended_at: float | None = 10.0


@pytest.mark.parametrize(
    ("target", "source", "why"),
    [
        (PresentCopy("in/a"), None, None),
        (None, None, "its copy is not there any more"),
        (PresentCopy("in/a", etag=OTHER), None, "its copy was overwritten"),
        (PresentCopy("in/a", size=4), None, "its copy has 4 bytes by now, and 3 were recorded"),
        (PresentCopy("in/a", refusal=("SpecialFile", "it is a pipe.")), None, "its copy cannot be read: it is a pipe"),
        (PresentCopy("in/a"), FoundObject("run/a", last_modified=1.0), None),
        (PresentCopy("in/a"), FoundObject("run/a"), "source and target seem to be one object under two addresses"),
    ],
)
def test_a_move_leaves_a_source_whose_copy_is_gone_or_is_itself(
    target: PresentCopy | None, source: FoundObject | None, why: str | None
) -> None:
    assert removal_rules.refuse_source_removal(SPEC, RecordedCopy(), target, source) == why


TO_DISK = replace(SPEC, target=LocalFolder("/data"))


@pytest.mark.parametrize(
    ("spec", "recorded", "there", "is_in_doubt"),
    [
        (SPEC, RecordedCopy(), PresentCopy("in/a"), False),
        (SPEC, RecordedCopy(target_etag=None), PresentCopy("in/a"), True),
        (SPEC, RecordedCopy(target_version_id="v1"), PresentCopy("in/a", version_id="v1"), False),
        (SPEC, RecordedCopy(target_version_id="v1"), PresentCopy("in/a", version_id="v2"), True),
        (TO_DISK, RecordedCopy(target_etag="3.1.0.7"), PresentCopy("a", etag="3.1.0.7", changed=9.0), False),
        (TO_DISK, RecordedCopy(target_etag="3.1.0.7"), PresentCopy("a", etag="3.2.0.7", changed=9.0), True),
        (TO_DISK, RecordedCopy(target_etag="3.1.0.7"), PresentCopy("a", etag="3.1.0.8", changed=9.0), True),
        (TO_DISK, RecordedCopy(target_etag="3.1.0.7"), PresentCopy("a", etag="3.1.0.7", changed=11.0), True),
        (TO_DISK, RecordedCopy(target_etag=None), PresentCopy("a", etag="3.1.0.7", changed=9.0), True),
        # A folder gets another time with each file in it.
        (TO_DISK, RecordedCopy(size=0, target_etag="0.1.0.7"), PresentCopy("a/", size=0, etag="0.2.0.7"), False),
    ],
)
def test_a_copy_that_may_have_been_written_to_is_read_before_its_source_is_removed(
    spec: TransferSpec, recorded: RecordedCopy, there: PresentCopy, is_in_doubt: bool
) -> None:
    assert removal_rules.needs_content_check(spec, recorded, there) is is_in_doubt


def test_a_removal_takes_what_is_selected_or_the_one_version_that_is_named() -> None:
    longer, version = FoundObject("run/a"), FoundObject("run/", version_id="v")

    assert removal_rules.is_removed(SPEC, longer)
    assert not removal_rules.is_removed(SPEC, replace(longer, refusal=("SpecialFile", "a pipe")))
    assert removal_rules.is_version_removed(SPEC, longer, exact=False, version_id=None)
    assert not removal_rules.is_version_removed(SPEC, longer, exact=True, version_id=None)
    assert removal_rules.is_version_removed(SPEC, version, exact=True, version_id="v")
    assert not removal_rules.is_version_removed(SPEC, version, exact=True, version_id="w")
    few, many = (removal_rules.refuse_too_many(SPEC, 2, found) for found in (2, 3))
    assert few is None
    assert many is not None
    assert many.code == "TooManyToDelete"
