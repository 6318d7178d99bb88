"""What can be the name and the labels of a transfer."""

from __future__ import annotations

import pytest

from seqferry.model import labels
from seqferry.model.errors import UsageError
from seqferry.model.labels import MAX_LABELS, Description


@pytest.mark.parametrize("name", ["Run 42", "é" * 200, "a", "ラン", "it's \\ \" <b>%_", "🧬\u200d🔬"])
def test_names_of_people_are_taken_as_they_are(name: str) -> None:
    assert labels.parse(name, []).name == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "\u200b",
        "\u2060 \u200d",
        "\ufeff",
        "\u00ad",
        "a" * 201,
        "a\nb",
        "a\x1b[31m",
        "a\0",
        "a\udcff",
        "a\u2028b",
        "\x7f",
    ],
)
def test_names_that_no_list_could_show_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="The name of a transfer has 1 to 200 characters"):
        labels.parse(name, [])


def test_texts_that_look_alike_are_alike() -> None:
    composed, apart = "Ä", "A\u0308"

    assert labels.parse(apart, [f"project={apart}"]) == Description(composed, {"project": composed})
    assert labels.parse_filter([f"project={apart}", "project"]) == (("project", composed), ("project", None))
    after = Description("old").with_changes(name=apart, labels={"project": apart})
    assert after == Description(composed, {"project": composed})


def test_labels_are_keys_with_values() -> None:
    given = ["project=X", "team/a.b_c-1=x=y", "empty="]

    assert labels.parse(None, given).labels == {"project": "X", "team/a.b_c-1": "x=y", "empty": ""}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["project"], "write key=value"),
        (["Project=X"], "cannot be the key"),
        (["=X"], "cannot be the key"),
        ([f"{'k' * 64}=X"], "cannot be the key"),
        (["a b=X"], "cannot be the key"),
        (["k\n=X"], "cannot be the key"),
        (["k=" + "v" * 201], "at most 200 characters"),
        (["k=a\nb"], "no control characters"),
        (["k=1", "k=2"], "given twice"),
        ([f"k{number}=v" for number in range(MAX_LABELS + 1)], "at most 20 labels"),
    ],
)
def test_labels_that_make_no_sense_are_refused(given: list[str], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        labels.parse(None, given)


def test_what_is_not_given_stays_as_before() -> None:
    before = Description("old", {"a": "1", "b": "2"})

    assert Description("new").merged_over(before) == Description("new", before.labels)
    assert Description(labels={"c": "3"}).merged_over(before) == Description("old", {"c": "3"})
    assert Description().merged_over(before) == before


def test_equal_labels_are_stored_as_the_same_text() -> None:
    assert Description(labels={"b": "2", "a": "ü"}).stored_labels() == '{"a": "ü", "b": "2"}'
    assert labels.read_stored(None, '{"a": "ü"}') == Description(labels={"a": "ü"})
    assert labels.read_stored(None, None) == Description()
