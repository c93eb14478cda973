# SPDX-License-Identifier: GPL-2.0-only
"""The book that `make docs` makes of these files: Sphinx, with MyST for Markdown.

README.md is its table of contents: the pages that it links to, in that order.  Links to files of the source tree, which the
book has not, become their names.
"""
import re

from pygments.lexers.special import TextLexer

project = "dlend"
author = "the dlend developers"
extensions = ["myst_parser"]
root_doc = "README"
myst_heading_anchors = 4
html_theme = "alabaster"
html_theme_options = {"description": "PCIe devices of other hosts", "page_width": "1100px", "fixed_sidebar": True}
html_show_sourcelink = False
exclude_patterns = ["ABI", "_build"]


def contents(app, name, source):
    text = re.sub(r"\[([^\]]*)\]\(\.\./([^)]*)\)", r"\1 (`\2`)", source[0])
    if name == root_doc:
        pages = re.findall(r"^- \[[^\]]*\]\(([\w/-]+)\.md\)", text, re.M)
        text += "\n```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n"
    source[0] = text


def setup(app):
    app.connect("source-read", contents)
    # Drawings stay as they are written: what draws them is no package of Debian's
    app.add_lexer("mermaid", TextLexer)
