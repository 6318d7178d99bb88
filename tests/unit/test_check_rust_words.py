"""``tools/check_rust_words.py``: options and commands in strings of the engine are found; comments and tests not."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("check_rust_words", ROOT / "tools/check_rust_words.py")
assert spec
assert spec.loader
check = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check)


@pytest.mark.parametrize(
    "text",
    [
        'let a = "choose --part-size";',
        'let a = "(--restore)";',
        "let a = '\\\\'; let b = \"--sse\";",
        'let a = "a \\" --sse";',
        'let a = "one \\\n    --memory";',
        'let a = r#"a "quoted" --sse"#;',
        'fn f<\'a>(x: &\'a str) { g(x, "--sse") } // "',
        'let a = b"--sse";',
        'let a = "Run the same command again.";',
        'let a = "then run it again";',
        'let a = "choose another target and rerun";',
        'let a = "see `seqferry doctor`";',
    ],
)
def test_an_option_or_a_command_in_a_string_is_found(text: str) -> None:
    assert len(list(check.command_words(text))) == 1


def test_the_line_of_an_option_is_told() -> None:
    assert list(check.command_words('fn f() {\n    g("a \\\n b --sse")\n}\n')) == [(3, "--sse")]


@pytest.mark.parametrize(
    "text",
    [
        '// "--sse"\nlet a = 1;',
        '/* "--sse" */',
        'let a = "a--b"; let b = "--- a"; let c = "x -- y";',
        'let bucket = "--x-s3";',
        'let a = "";\n#[cfg(test)]\nmod tests {\n    const A: &str = "--sse";\n}\n',
        "let a = '\"'; // --sse \"",
        '// run the same command again\nlet a = "running; it runs against";',
        'let a = "the budget is overrun";',
    ],
)
def test_what_is_no_option_of_a_string_is_not(text: str) -> None:
    assert not list(check.command_words(text))


@pytest.mark.parametrize(
    ("path", "shipped"),
    [
        ("store/src/error/classify.rs", True),
        ("transfer/src/object/target.rs", True),
        ("transfer/src/pipe/input/tests.rs", False),
        ("vfs/src/reader/rate_tests.rs", False),
        ("transfer/tests/unclear.rs", False),
        ("transfer/examples/request_costs.rs", False),
        ("mount/src/session.rs", False),
        ("testkit/src/bin/s3sim.rs", False),
    ],
)
def test_the_engine_is_looked_at_and_doors_and_tests_are_not(path: str, shipped: bool) -> None:
    assert check.is_shipped(check.CRATES / path) is shipped


def test_no_string_of_the_engine_names_an_option_or_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main() == 0, capsys.readouterr().out
