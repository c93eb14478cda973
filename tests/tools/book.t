#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The docs as a book: each page is in its table of contents, and each link between pages leads somewhere."""
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cluster"))
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

TOP = HERE.parent.parent
DOCS = TOP / "docs"
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^( *)```.*?^\1```$", re.M | re.S)


def anchors(text):
    """Of its headings, as forges and MyST make them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        found.add(re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-"))
    return found


def broken(page, text):
    """Links of a page that lead nowhere."""
    for link in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        there = (page.parent / name).resolve() if name else page
        if not there.exists() or (anchor and there.suffix == ".md" and anchor not in anchors(there.read_text(encoding="utf-8"))):
            yield f"{page.relative_to(TOP)}: {link}"


def main():
    with Tap() as t:
        listed = re.findall(r"^- \[[^\]]*\]\(([a-z-]+)\.md\)", (DOCS / "README.md").read_text(encoding="utf-8"), re.M)
        t.equal(sorted(listed), sorted(page.stem for page in DOCS.glob("*.md") if page.name != "README.md"),
                "each page is in the table of contents, once")
        pages = [*DOCS.glob("*.md"), TOP / "README.md", TOP / "CONTRIBUTING.md", *TOP.glob("tests/**/README.md")]
        wrong = [link for page in pages for link in broken(page, page.read_text(encoding="utf-8"))]
        t.equal(wrong, [], "each link between files leads somewhere")
        page = DOCS / "none.md"
        t.equal(list(broken(page, "[a](getting-started.md) [b](gone.md) [c](paths.md#gone) [d](#x)\n```\n[e](gone2.md)\n```\n# x\n"))[:2],
                ["docs/none.md: gone.md", "docs/none.md: paths.md#gone"], "a page or a heading that is gone is found")


main()
