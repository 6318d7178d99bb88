"""Pages of HTML, rendered by Jinja2 from the templates beside this file."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from seqferry.model import formatting

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER: Final = Path(__file__).parent
_BUFFERED: Final = 512
"""Pieces of a template that become one of a stream: some 10 kB."""


def render(template: str, *, folder: Path = FOLDER, **values: Any) -> str:
    """A whole page.

    Args:
        folder: where the template is, if not here; it may extend and import those that are here.
    """
    return _environment(folder).get_template(template).render(values)


def stream(template: str, **values: Any) -> Iterator[str]:
    """A page in pieces; what the template iterates over is read as the pieces are."""
    pieces = _environment(FOLDER).get_template(template).stream(values)
    pieces.enable_buffering(_BUFFERED)
    return pieces


def stylesheet(name: str) -> str:
    """A style sheet, as the pages hold it."""
    return (FOLDER / name).read_text()


@cache
def _environment(folder: Path) -> Environment:
    """An environment that escapes every value and refuses undefined ones."""
    # Imported here, so that no command without a page waits for it.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def finalize(value: Any) -> Any:
        """Nothing for None; characters that a reader could be misled by are visible."""
        if value is None:
            return ""
        return value if isinstance(value, Markup) else formatting.printable(str(value))

    def style(name: str) -> Markup:
        return Markup(stylesheet(name))  # noqa: S704 - a file of ours

    made: Any = Environment(
        loader=FileSystemLoader([folder, FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "count": formatting.count,
        "size": formatting.size,
        "thousands": "{:,}".format,
        "stylesheet": style,
    }
    return made
