#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The docs as a book: each page is in its table of contents, each link between pages leads somewhere, and each scenario, module
parameter, target of make and NTB that they name is there."""
import re
import subprocess
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


SCENARIO = re.compile(r"(?<![#\w])(\d\d-[a-z][a-z0-9-]*)(?:\.t)?\b")
NO_SCENARIOS = {"16-bit", "32-bit", "64-bit", "89-efficient-rcuda-cloudc", "90-mine"}


def read(name):
    return (TOP / name).read_text(encoding="utf-8")


def parameters():
    """Of all modules: {"dlend_core.node_id", ...}."""
    found = set()
    for module, objects in re.findall(r"^(dlend_\w+)-y \+?:?= (.*)$", read("Kbuild"), re.M):
        for source in objects.split():
            text = (TOP / source).with_suffix(".c").read_text(encoding="utf-8")
            found |= {f"{module}.{name}" for name in re.findall(r"^module_param(?:_named|_cb)?\((\w+)", text, re.M)}
    return found


def gone(texts, pattern, there):
    """What these texts name that is not there."""
    return sorted(f"{name}: {word}" for name, text in texts.items() for word in set(re.findall(pattern, text)) if word not in there)


def claims(t, texts):
    """Names that pages give to what is in the tree."""
    scenarios = {path.stem for path in (TOP / "tests/cluster/t").glob("*.t")} | NO_SCENARIOS
    t.equal(gone(texts, SCENARIO, scenarios), [], "each scenario that a page names is there")
    t.equal(gone(texts, r"\bdlend_(?:core|ntb|lender|borrower|mdev|native)\.(?!ko\b)\w+", parameters()), [],
            "and each parameter of a module")
    targets = set(re.findall(r"^([a-z][\w.-]*):", read("Makefile"), re.M))
    verbs = set(re.findall(r'^\t\{ "([a-z-]+)", ', read("tools/verb.c"), re.M))
    t.equal(gone(texts, r"(?:`|    (?:# )?)dlend ([a-z][\w-]*)", verbs), [], "and each verb of dlend")
    t.equal(gone(texts, r"(?:`|^    (?:sudo )?)make ([a-z][\w.-]*)", targets), [], "and each target of make")
    table = {f"{vendor}:{device}" for vendor, device in
             re.findall(r"\{ 0x(\w{4}), 0x(\w{4}), \"ntb_hw", read("tools/doctor_ntb.c"))}
    listed = {f"{vendor}:{device}" for vendor, devices in re.findall(r"\(([0-9a-f]{4}):([0-9a-f, ]+)\)", texts["docs/hardware.md"])
              for device in devices.split(", ")}
    t.equal(listed, table, "hardware.md has the NTBs that dlend doctor knows")


def main():
    with Tap() as t:
        listed = re.findall(r"^- \[[^\]]*\]\(([a-z-]+)\.md\)", (DOCS / "README.md").read_text(encoding="utf-8"), re.M)
        t.equal(sorted(listed), sorted(page.stem for page in DOCS.glob("*.md") if page.name != "README.md"),
                "each page is in the table of contents, once")
        pages = [*DOCS.glob("*.md"), TOP / "README.md", TOP / "CONTRIBUTING.md", *TOP.glob("tests/**/README.md")]
        wrong = [link for page in pages for link in broken(page, page.read_text(encoding="utf-8"))]
        t.equal(wrong, [], "each link between files leads somewhere")
        claims(t, {str(page.relative_to(TOP)): read(page) for page in pages})
        result = subprocess.run(["make", "docs"], cwd=TOP, capture_output=True, text=True, check=False)
        missing = [page for page in ("README", *listed) if not (TOP / f"build/docs/{page}.html").exists()]
        t.equal((result.returncode, missing), (0, []), "make docs makes a page of HTML of each, without a warning", result.stdout + result.stderr)
        page = DOCS / "none.md"
        t.equal(list(broken(page, "[a](getting-started.md) [b](gone.md) [c](paths.md#gone) [d](#x)\n```\n[e](gone2.md)\n```\n# x\n"))[:2],
                ["docs/none.md: gone.md", "docs/none.md: paths.md#gone"], "a page or a heading that is gone is found")
        t.equal(gone({"none.md": "16-ats, 16-gone.t, 17-gone"}, SCENARIO, {"16-ats"}), ["none.md: 16-gone", "none.md: 17-gone"],
                "and a scenario that is")


main()
