"""What is said at the end of a transfer."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from statuses import status

from seqferry.cli.output import summary
from seqferry.model import operations
from seqferry.model.messages.steps import ADVICE, command_step, split_next_step, step_code
from seqferry.model.models import ERROR_CLASSES, FailureGroup, Totals, Verification
from seqferry.model.operations import OPERATIONS, TRANSFER, Operation
from seqferry.proof.auditing import Head

MIB = 1024**2


def text_of(result: summary.TransferSummary) -> str:
    return "\n".join(summary.format_summary(result, status_command="seqferry status 3f2a"))


def next_step(
    error_class: str,
    error_code: str,
    operation: Operation = OPERATIONS[TRANSFER],
    *,
    message: str = "",
    retry: str | None = None,
) -> str:
    return command_step(step_code(FailureGroup(error_class, error_code, "", message, 1, ())), operation, retry)


def test_the_summary_tells_figures_and_verifications() -> None:
    verifications = [
        Verification("done", "checksum", 50, 900 * MIB, 2, 0),
        Verification("done", "etag", 5, 100 * MIB, 1, 1),
        Verification("skipped", "etag", 4, 10 * MIB, 0, 0),
    ]
    ended = status("done", objects=59, done=55, skipped=4, bytes=1010 * MIB, bytes_done=1010 * MIB)

    told = text_of(summary.TransferSummary(ended, verifications, []))

    assert told.splitlines() == [
        "Done: 59 objects in 10.0 s",
        "  copied    55 objects, 1000.0 MiB, 100.0 MiB/s on average",
        "  skipped   4 objects already there",
        "  verified  50 by checksum, 9 by etag",
        "  retried   3 requests",
        "  note      1 object copied without all of its tags or headers: seqferry status 3f2a --objects --json",
    ]


def test_the_head_of_a_signed_ledger_is_told_to_be_kept() -> None:
    head = Head(14, "9f" * 32)
    ended = status("done", objects=1, done=1)

    kept, without = (summary.TransferSummary(ended, [], [], ledger=one) for one in (head, None))

    assert f"  ledger    14-{'9f' * 32}" in text_of(kept).splitlines()
    assert "ledger" not in text_of(without)
    told = summary.facts(kept, 0)
    assert (told["ledger_head"], told["ledger_count"]) == (str(head), 14)
    assert summary.facts(without, 0)["ledger_head"] is None


def test_failures_are_grouped_with_keys_and_a_next_step() -> None:
    keys = tuple(f"run42/locked-{number:02d}" for number in range(20))
    denied = FailureGroup("person", "AccessDenied", "HeadObject", "Access to s3://vendor/… was denied.", 25, keys)
    odd = FailureGroup("mismatch", "", "HeadObject", "differs", 1, ("run42/two\nlines\x1b[2J",))
    ended = status("done_with_failures", objects=200, done=174, failed=26)

    told = text_of(summary.TransferSummary(ended, [], [denied, odd]))

    assert told.startswith("Finished with 26 failures (174 of 200 objects copied) in 10.0 s\n")
    assert "25 objects failed: HeadObject AccessDenied" in told
    assert "    run42/locked-19\n    … and 5 more: seqferry status 3f2a --failed" in told
    assert next_step("person", "AccessDenied") in told
    assert "1 object failed: HeadObject mismatch" in told
    assert "    run42/two\\nlines\\x1b[2J" in told
    assert "\x1b" not in told


def test_each_cause_is_told_once_with_one_next_step() -> None:
    message = f"CopyObject s3://ours/in/a: AccessDenied (403): Access Denied. {ADVICE['grant_copy']}"
    denied = FailureGroup("person", "AccessDenied", "CopyObject", message, 3, ("run/a", "run/b", "run/c"))
    result = summary.TransferSummary(status("done_with_failures", objects=24, done=21, failed=3), [], [denied])

    told = summary.format_summary(result, status_command="seqferry status 3f2a", retry_command="seqferry retry 3f2a")

    assert told[told.index("") :] == [
        "",
        "3 objects failed: CopyObject AccessDenied",
        "  CopyObject s3://ours/in/a: AccessDenied (403): Access Denied.",
        f"  Next: {ADVICE['grant_copy'].removesuffix('run the same command again.')}run `seqferry retry 3f2a`.",
        "    run/a",
        "    run/b",
        "    run/c",
    ]
    [event] = summary.facts(result, 1)["failures"]
    assert event["next_step"] == ADVICE["grant_copy"].replace("the same command", "the same cp")


@pytest.mark.parametrize("error_class", ERROR_CLASSES)
@pytest.mark.parametrize("operation", ["transfer", "move", "remove", "pack", "unpack", "check", "verify"])
def test_no_step_names_two_commands_that_repeat(error_class: str, operation: str) -> None:
    for words in ("", *ADVICE.values()):
        message = f"GetObject s3://b/k: Code (400): why. {words}".rstrip()
        why, _ = split_next_step(message)
        step = next_step(
            error_class, "", operations.find_operation(operation), message=message, retry="seqferry retry 3f2a"
        )
        assert step.count("seqferry retry 3f2a") + len(re.findall(r"un the same \w+ (?:again|with)", step)) <= 1, step
        assert step.endswith((".", ")"))
        assert not why.endswith(words) or not words or not words[0].isupper(), why


@pytest.mark.parametrize(
    ("error_class", "words", "step"),
    [
        ("person", "grant_read", "as well. Then run `R`."),
        ("person", "grant_write", "(and the KMS key's rights), then run `R`."),
        ("retry", "run_again", "Run `R`; what is done is not repeated."),
        ("retry", None, "for longer than the retries last: run `R`."),
        ("person", "restore", "with --restore, which asks for a readable copy and waits for it."),
        ("object", "choose_key", "under another key, which can be one."),
        ("exists", "replace_target", "skip to leave it, or choose another target."),
        ("mismatch", "run_again", "alters data."),
        ("redirect", None, "region of the bucket as --source-region or --target-region."),
    ],
)
def test_the_next_step_is_the_smallest_change_that_helps(error_class: str, words: str | None, step: str) -> None:
    message = f"Why. {ADVICE[words]}" if words else "Why."

    assert next_step(error_class, "", message=message, retry="R").endswith(step)


@pytest.mark.parametrize("action", ["s3:GetObject", "kms:GenerateDataKey"])
def test_an_action_that_the_service_names_is_all_that_has_to_be_allowed(action: str) -> None:
    refused = f"User: arn:aws:iam::1:user/x is not authorized to perform: {action} on resource: arn:aws:s3:::b/k"
    message = f"CopyObject s3://b/k: AccessDenied (403): {refused}. {ADVICE['grant_copy']}"

    step = next_step("person", "AccessDenied", message=message, retry="seqferry retry 3f2a")

    assert step == "Allow the action that the message names, then run `seqferry retry 3f2a`."
    assert action in split_next_step(message)[0]


@pytest.mark.parametrize(
    ("operation", "totals", "title"),
    [
        ("transfer", {"objects": 1}, "Finished with 1 failure (0 of 1 objects copied) in 10.0 s"),
        ("remove", {"objects": 3, "done": 2}, "Finished with 1 failure (2 of 3 objects removed) in 10.0 s"),
        ("pack", {"objects": 3, "done": 2}, "Finished with 1 failure (2 of 3 objects packed) in 10.0 s"),
        ("run", {"objects": 1200, "done": 1199}, "Finished with 1 failure (1,199 of 1,200 objects done) in 10.0 s"),
        ("check", {"objects": 3, "skipped": 2}, "Finished with 1 failure (2 of 3 objects identical) in 10.0 s"),
    ],
)
def test_a_transfer_with_failures_is_summed_up_in_numbers(operation: str, totals: dict[str, int], title: str) -> None:
    ended = replace(status("done_with_failures"), totals=Totals(failed=1, **totals))
    ended = replace(ended, spec=replace(ended.spec, operation=operation))

    assert text_of(summary.TransferSummary(ended, [], [])).startswith(f"{title}\n")


@pytest.mark.parametrize(("operation", "command"), [("transfer", "cp"), ("pack", "pack"), ("unpack", "unpack")])
def test_the_next_step_names_the_command_that_has_failed(operation: str, command: str) -> None:
    for error_class in ("retry", "object", "mismatch"):
        told = next_step(error_class, "", operations.find_operation(operation))
        assert f"un the same {command} again" in told
        assert command == "cp" or " cp " not in told


def test_a_stopped_transfer_says_why() -> None:
    ended = status("failed")
    told = text_of(summary.TransferSummary(ended, [], []))

    assert told == "Stopped: 0 objects in 10.0 s"


def test_nothing_found_names_the_place() -> None:
    assert "nothing is at s3://vendor/run42/" in text_of(summary.TransferSummary(status("done"), [], []))


@pytest.mark.parametrize("error_class", ERROR_CLASSES)
def test_each_class_of_error_has_a_next_step_of_its_own(error_class: str) -> None:
    assert next_step(error_class, "") != next_step("unheard of", "")


def test_the_next_step_is_of_the_code_where_the_class_says_too_little() -> None:
    assert "clock" in next_step("retry", "RequestTimeTooSkewed")
    assert next_step("retry", "NoSuchUpload") != next_step("retry", "InternalError")


def test_the_event_holds_raw_values() -> None:
    verifications = [Verification("done", "checksum", 2, 5, 0, 0), Verification("failed", "none", 1, 7, 4, 0)]
    group = FailureGroup("throttle", "SlowDown", "CopyObject", "too fast", 1, ("k",))

    facts = summary.facts(
        summary.TransferSummary(
            status("done_with_failures", objects=3, done=2, failed=1, bytes=12, bytes_done=5), verifications, [group]
        ),
        1,
    )

    assert facts["bytes_copied"] == 5
    assert facts["seconds"] == 10.0
    assert facts["verified"] == {"checksum": 2}
    assert facts["retries"] == 4
    assert facts["started_at"] == "1970-01-01T00:16:41.000Z"
    assert facts["failures"][0]["keys"] == ("k",)
    assert facts["failures"][0]["next_step"]
    assert facts["exit_code"] == 1
