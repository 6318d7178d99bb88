"""The faults that ``tools/mutants.py`` can plant in a Rust or a Python source.

Each is an edit that leaves the behaviour as it is until the switch of its number is on.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

NUMBER = "\N{SECTION SIGN}"  # stands for the number of a mutant in its text


@dataclass(frozen=True)
class Mutant:
    """An edit of a file: the text from ``start`` to ``end`` becomes ``text``."""

    file: str
    line: int
    function: str
    operator: str
    what: str
    start: int
    end: int
    text: str


# --- Rust, by text --------------------------------------------------------------------------------------------------

_DULL = re.compile(
    r"""//[^\n]*|/\*.*?\*/|(?<!\w)b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?'(?:\\(?:x..|u\{[^}]*\}|.)|[^'\\\n])'""",
    re.DOTALL,
)
_LEFT_OUT = re.compile(
    r"""\#\[cfg\((?!target_os\ =\ "linux")[^\]]*\] | ^\s*macro_rules!
    | ^\s*(?:pub(?:\([^)]*\))?\ )?const\ (?:unsafe\ )?fn
    | ^\s*(?:unsafe\ )?impl\b[^{;]*\b(?:Display|Debug)\ for\b""",
    re.MULTILINE | re.VERBOSE,
)
TEST_MODULE = re.compile(r"#\[cfg\([^\]]*\btest\b[^\]]*\]\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;")
_FUNCTION = re.compile(r"\bfn\s+(\w+)")
_CONDITION = re.compile(r"^\s*(?:\} else )?(?:if|while) (?P<condition>.+) \{$")
_ASSIGNED = re.compile(r"^\s*let \w+ = (?P<condition>[^{}]+);$")
_CALL = re.compile(r"(?!drop\b|return\b|panic\b|exit\b)[a-z_]\w*(?:(?:\.|::)\w+)*\(.*\)(?:\.await)?\??;$")
_COMPARED = re.compile(r" (<=?|>=?) ")
_OTHER_BOUND = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_LOGS = re.compile(r"\b(?:tracing|trace|debug|info|warn|error|log|eprintln|println)!?(?:::|\()|\breserve\(")
_RUST_DEFAULTS = (
    (r"bool", ("true", "false")),
    (r"Option<.*>", ("None",)),
    (r"(?:\w+::)*Result<\(\)(?:, .*)?>", ("Ok(())",)),
    (r"[ui](?:8|16|32|64|128|size)", ("0",)),
    (r"Vec<.*>", ("Vec::new()",)),
    (r"String", ("String::new()",)),
    (r"", ("",)),
)


def masked(source: str) -> str:
    """A Rust source of the same length, with comments blank and literals without code in them."""

    def blank(found: re.Match[str]) -> str:
        fill = " " if found[0].startswith("/") else "s"
        return re.sub(r"[^\n]", fill, found[0])

    return _DULL.sub(blank, source)


def closing(code: str, at: int) -> int:
    """Where the bracket at ``at`` is closed."""
    depth = 0
    for position in range(at, len(code)):
        depth += (code[position] in "([{") - (code[position] in ")]}")
        if depth == 0:
            return position
    return len(code)


def item_end(code: str, at: int) -> int:
    """The end of the item that begins at ``at``: its last brace, or its semicolon."""
    while at < len(code) and code[at] not in "{;":
        at = closing(code, at) + 1 if code[at] in "([" else at + 1
    return closing(code, at) if code[at : at + 1] == "{" else at


def returned(code: str, at: int) -> tuple[str, int]:
    """The return type of the function whose name ends at ``at``, and where its body begins (or its semicolon is)."""
    angles = 0
    while code[at] != "(" or angles:
        angles += (code[at] == "<") - (code[at] == ">" and code[at - 1] != "-")
        at += 1
    after = closing(code, at) + 1
    end = after
    while code[end] not in "{;":
        end = closing(code, end) + 1 if code[end] in "([" else end + 1
    kind = re.split(r"\bwhere\b", code[after:end])[0].strip().removeprefix("->")
    return " ".join(kind.split()), end


def is_balanced(text: str) -> bool:
    return all(text.count(one) == text.count(other) for one, other in ("()", "[]", "{}"))


def parts(code: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The spans between ``&&`` and ``||`` outside of brackets."""
    at = begin = start
    while at < end:
        if code[at] in "([{":
            at = closing(code, at)
        elif code[at : at + 2] in ("&&", "||"):
            yield begin, at - 1
            begin = at + 3
        at += 1
    yield begin, end


def outside_brackets(code: str, start: int, end: int, pattern: re.Pattern[str]) -> list[re.Match[str]]:
    return [found for found in pattern.finditer(code, start, end) if is_balanced(code[start : found.start()])]


class RustFile:
    """The mutants that a Rust source can have."""

    def __init__(self, file: str, source: str) -> None:
        self.file, self.source = file, source
        self.code = masked(source)
        self.left_out = [
            range(found.start(), item_end(self.code, found.end())) for found in _LEFT_OUT.finditer(self.code)
        ]
        self.functions: list[tuple[range, str, str]] = []
        for found in _FUNCTION.finditer(self.code):
            kind, begin = returned(self.code, found.end())
            if self.code[begin] == "{" and not self._is_left_out(found.start()):
                self.functions.append((range(begin, closing(self.code, begin)), found[1], kind))

    def _is_left_out(self, at: int) -> bool:
        return any(at in one for one in self.left_out)

    def size(self) -> int:
        """Lines of code."""
        offsets = (found.start() for found in re.finditer(r"^[^\n]*\S", self.code, re.MULTILINE))
        return sum(not self._is_left_out(at) for at in offsets)

    def _mutant(self, operator: str, what: str, start: int, end: int, text: str) -> Mutant | None:
        inner = [one for one in self.functions if start in one[0]]
        if not inner or self._is_left_out(start):
            return None
        body, name, _ = min(inner, key=lambda one: len(one[0]))
        line = self.source.count("\n", 0, start) + 1
        function = f"{name} (line {self.source.count(chr(10), 0, body.start) + 1})"
        return Mutant(self.file, line, function, operator, what, start, end, text)

    def mutants(self) -> list[Mutant]:
        return [one for one in (*self._of_lines(), *self._early_returns()) if one is not None]

    def _early_returns(self) -> Iterator[Mutant | None]:
        for body, _, kind in self.functions:
            if self.code[body.start + 1 : body.start + 2] != "\n":
                continue
            for pattern, values in _RUST_DEFAULTS:
                for value in values if re.fullmatch(pattern, kind) else ():
                    text = f"{{ if crate::mutants::is_on({NUMBER}) {{ return {value}; }}".replace("return ;", "return;")
                    what = f"return {value} immediately".replace("return  ", "return ")
                    yield self._mutant("early return", what, body.start, body.start + 1, text)

    def _of_lines(self) -> Iterator[Mutant | None]:
        at, before = 0, "{"
        for line in self.code.splitlines(keepends=True):
            text = line.rstrip()
            if text and not _LOGS.search(text):
                yield from self._of_line(at, text, before)
            at, before = at + len(line), text or before

    def _of_line(self, at: int, line: str, before: str) -> Iterator[Mutant | None]:
        found = _CONDITION.match(line) or _ASSIGNED.match(line)
        if found and not re.search(r"\blet\b|=>|[{}]", found["condition"]) and is_balanced(found["condition"]):
            start, end = at + found.start("condition"), at + found.end("condition")
            if re.match(r"\s*(?:\} else )?if ", line):
                condition = self.source[start:end]
                text = f"crate::mutants::is_on({NUMBER}) != ({condition})"
                yield self._mutant("negate", f"negate `{condition}`", start, end, text)
            for span in parts(self.code, start, end):
                yield self._off_by_one(*span)
        statement = line.strip()
        if before[-1] in ";{}" and _CALL.fullmatch(statement) and is_balanced(statement) and " = " not in statement:
            start, end = at + len(line) - len(statement), at + len(line)
            text = f"if !crate::mutants::is_on({NUMBER}) {{ {self.source[start:end]} }}"
            yield self._mutant("skip", f"skip `{self.source[start:end]}`", start, end, text)

    def _off_by_one(self, start: int, end: int) -> Mutant | None:
        found = outside_brackets(self.code, start, end, _COMPARED)
        if len(found) != 1 or "|" in self.code[start:end]:
            return None
        compared, other = self.source[start:end], _OTHER_BOUND[found[0][1]]
        changed = self.source[start : found[0].start(1)] + other + self.source[found[0].end(1) : end]
        text = f"(if crate::mutants::is_on({NUMBER}) {{ {changed} }} else {{ {compared} }})"
        return self._mutant("off by one", f"`{compared}` with `{other}`", start, end, text)


# --- Python, by its syntax tree -------------------------------------------------------------------------------------

_PYTHON_LOGS = re.compile(r"\b(?:_?log(?:ger)?|logging)\.\w+\(")
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_BOUNDS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
}
_PYTHON_DEFAULTS = (
    (r"bool", ("True", "False")),
    (r"None|.*\| None", ("None",)),
    (r"int", ("0",)),
    (r"float", ("0.0",)),
    (r"str", ('""',)),
    (r"(?:list|Sequence)\[.*", ("[]",)),
    (r"(?:dict|Mapping)\[.*", ("{}",)),
    (r"tuple\[.*\.\.\.\]", ("()",)),
)


class PythonFile:
    """The mutants that a Python source can have."""

    def __init__(self, file: str, source: str) -> None:
        self.file, self.source = file, source
        self.lines = source.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))
        self.tree = ast.parse(source)

    def size(self) -> int:
        return sum(bool(line.split("#")[0].strip()) for line in self.lines)

    def _at(self, line: int, column: int) -> int:
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def _text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self._span(node)
        return self.source[start:end]

    def import_at(self) -> int:
        """Where the import of the switch goes: behind the docstring and imports from the future."""
        after = 0
        for one in self.tree.body:
            is_docstring = one is self.tree.body[0] and isinstance(one, ast.Expr)
            if is_docstring or (isinstance(one, ast.ImportFrom) and one.module == "__future__"):
                after = one.end_lineno or 0
        return self.starts[after]

    def mutants(self) -> list[Mutant]:
        return [one for function, name in self._functions(self.tree, "") for one in self._of_function(function, name)]

    def _functions(self, parent: ast.AST, prefix: str) -> Iterator[tuple[_Function, str]]:
        for node in ast.iter_child_nodes(parent):
            name = f"{prefix}{getattr(node, 'name', '')}"
            if isinstance(node, _Function) and getattr(node, "name", "") not in {"__repr__", "__str__"}:
                yield node, name
            is_scope = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            yield from self._functions(node, f"{name}." if is_scope else prefix)

    def _of_function(self, function: _Function, name: str) -> Iterator[Mutant]:
        body = function.body
        if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            body = body[1:]
        if not body or body[0].lineno == function.lineno or isinstance(body[0], ast.Raise):
            return  # a declaration
        nodes = [node for statement in body for node in self._nodes(statement)]
        if not any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in nodes):
            yield from self._early_returns(function, body[0], name)
        for node in nodes:
            for operator, what, span, text in self._of_node(node):
                line = self.source.count("\n", 0, span[0]) + 1
                yield Mutant(self.file, line, name, operator, " ".join(what.split()), *span, text)

    def _nodes(self, node: ast.AST) -> Iterator[ast.AST]:
        """All below a statement but logging, annotations, texts, and functions and classes of their own."""
        left_out = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.JoinedStr, ast.pattern)
        if isinstance(node, left_out) or (isinstance(node, ast.Expr) and _PYTHON_LOGS.search(self._text(node))):
            return
        yield node
        for field, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and field != "annotation":
                    yield from self._nodes(child)

    def _early_returns(self, function: _Function, first: ast.stmt, name: str) -> Iterator[Mutant]:
        kind = ast.unparse(function.returns) if function.returns else ""
        line = min([first.lineno, *(one.lineno for one in getattr(first, "decorator_list", ()))])
        at, indent = self.starts[line - 1], " " * first.col_offset
        for pattern, values in _PYTHON_DEFAULTS:
            for value in values if re.fullmatch(pattern, kind) else ():
                text = f"{indent}if _mutants.is_on({NUMBER}):\n{indent}    return {value}\n"
                yield Mutant(self.file, line, name, "early return", f"return {value} immediately", at, at, text)

    def _of_node(self, node: ast.AST) -> Iterator[tuple[str, str, tuple[int, int], str]]:
        on = f"_mutants.is_on({NUMBER})"
        if isinstance(node, (ast.If, ast.IfExp)):
            text = self._text(node.test)
            yield "negate", f"negate `{text}`", self._span(node.test), f"({on} != bool({text}))"
        elif isinstance(node, ast.Expr | ast.AugAssign) and node.lineno == node.end_lineno:
            value = node.value.value if isinstance(node.value, ast.Await) else node.value
            if isinstance(value, ast.Call) or isinstance(node, ast.AugAssign):
                text = self._text(node)
                yield "skip", f"skip `{text}`", self._span(node), f"if not {on}: {text}"
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _BOUNDS:
            left, right = self._text(node.left), self._text(node.comparators[0])
            bound, other = _BOUNDS[type(node.ops[0])]
            text = f"(({left}) {other} ({right}) if {on} else ({left}) {bound} ({right}))"
            yield "off by one", f"`{self._text(node)}` with `{other}`", self._span(node), text
        elif isinstance(node, ast.BoolOp):
            word, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            values = [f"({self._text(one)})" for one in node.values]
            text = f"({f' {other} '.join(values)} if {on} else {f' {word} '.join(values)})"
            yield "and/or", f"`{self._text(node)}` with `{other}`", self._span(node), text
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            line = self.lines[node.lineno - 1].strip()
            yield "constant", f"`{self._text(node)}` + 1 in `{line}`", self._span(node), f"({self._text(node)} + {on})"
