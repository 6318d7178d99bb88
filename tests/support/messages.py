"""The form of error messages: what was done, to which object, why, and what to do next."""

from __future__ import annotations

import re
from typing import Final

NEXT: Final = re.compile(
    r"\bseqferry [a-z-]+|did you mean|nearest: |name (?:a|an|its|one|the)\b|cp, mv and rm can|allows up to|"
    r"[Ww]rite |[Gg]ive |[Cc]heck |[Cc]hoose |[Ll]ook |[Cc]orrect |[Ss]ay |[Aa]dd |list the source again"
)
"""What begins a next step."""

AT_A_STORAGE: Final = frozenset({"sync", "mv", "pack", "unpack", "preflight", "head", "mount", "tar", "du"})
"""Verbs whose errors are all about a storage."""

DOUBLED: Final = re.compile(r"\.\.(?!\.)(?<!\.\.\.)|\.:|: \.|\?\.|,\.|;\.|\.;|: :|  ")


def check_form(out: str, err: str, named: str) -> None:
    """See that a command that failed has printed one message of this form, which names what it is about."""
    assert "Traceback" not in err + out
    assert "moversecret" not in err + out
    message = err.strip()
    assert message.startswith("seqferry: "), message
    assert "\n" not in message, "one message is one line"
    said = message.removeprefix("seqferry: ")
    assert named in said
    assert not DOUBLED.search(said), said
    assert NEXT.search(said), f"no next step: {said}"
    assert len(re.findall(r"[.?!](?=\s+[A-Z`])", said)) <= 2, f"more than three sentences: {said}"
    assert said.endswith(".") or re.search(r"[:;] (?:\S+ )*(?:seqferry|s3://|cp )\S*[^.]*$", said), said
