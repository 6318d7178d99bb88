"""Hooks of mkdocs: the README as the first page, anchors as GitHub makes them, links to files outside of docs/."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
README: Final = ROOT / "README.md"
ICON: Final = ROOT / "web/public/icon.svg"
_LINK: Final = re.compile(r"(\]\()(?![a-z]+:|#)([^)\s#]+)")
_CODE_IN_TABLE: Final = re.compile(r"`[^`]+`")


def slugify(heading: str, separator: str) -> str:
    """The anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.mdx_configs["toc"]["slugify"] = slugify
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    files.append(File.generated(config, "index.md", content=README.read_text(encoding="utf-8")))
    files.append(File.generated(config, "icon.svg", content=ICON.read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    source = README if page.file.src_uri == "index.md" else DOCS / page.file.src_uri
    repository = _repository()

    def target(match: re.Match[str]) -> str:
        return match[1] + site_link(source, match[2], page.file.src_uri, repository)

    return "\n".join(_plain_pipes(line) for line in _LINK.sub(target, markdown).split("\n"))


def on_post_build(config: MkDocsConfig) -> None:
    site = Path(config.site_dir)
    for name in ("sitemap.xml", "sitemap.xml.gz"):  # the site has no address of its own
        (site / name).unlink()
    index = site / "search/search_index.json"
    entries = sections(json.loads(index.read_text(encoding="utf-8"))["docs"])
    index.write_text(json.dumps(entries, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def sections(docs: list[dict[str, str]]) -> list[dict[str, str]]:
    """The sections of all pages, each with the title of its page; entries for whole pages repeat them and go."""
    titles = {doc["location"]: doc["title"] for doc in docs if "#" not in doc["location"]}
    return [{**doc, "page": titles[doc["location"].partition("#")[0]]} for doc in docs if "#" in doc["location"]]


def site_link(source: Path, link: str, page: str, repository: str) -> str:
    """A link of a Markdown file as a link of the site: relative to the page, or to the repository on the web.

    Raises:
        FileNotFoundError: the link leads out of docs/ and to no file.
    """
    found = Path(os.path.normpath(source.parent / link))
    if found == README:
        return _relative("index.md", page)
    if found.is_relative_to(DOCS):
        return _relative(found.relative_to(DOCS).as_posix(), page)
    if not found.exists():
        raise FileNotFoundError(f"{source.relative_to(ROOT)}: the link {link} leads to no file")
    kind = "tree" if found.is_dir() else "blob"
    return f"{repository}/{kind}/main/{found.relative_to(ROOT).as_posix()}"


def _relative(target: str, page: str) -> str:
    return os.path.relpath(target, Path(page).parent)


def _repository() -> str:
    described = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return str(described["project"]["urls"]["Repository"])


def _plain_pipes(line: str) -> str:
    """A row of a table without the backslash before a pipe in code: GitHub needs it, Python-Markdown shows it."""
    if not line.startswith("|"):
        return line
    return _CODE_IN_TABLE.sub(lambda code: code[0].replace("\\|", "|"), line)
