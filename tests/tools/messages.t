#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""docs/trouble.md is the catalogue of messages: text, cause, cure.  Each text of the sources is in it, and each of its texts is
in the sources.

An entry is an item of a list that begins with texts in `...`, separated by commas; a paragraph of its own says what they
mean.  "..." stands for what is filled in, or left out.  A text may be put together ("what: why"), and the sources may have
its parts in several places: then each part is looked for by itself.
"""
import ast
import re
import sys
from functools import lru_cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
sys.path[:0] = [str(HERE.parent / "cluster")]
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

COLUMNS = 120
LEAST_LETTERS = 8       # with fewer, a part says nothing
LEAST_WORDS = 5         # of a string of the modules: with fewer, it is a part of a text
# Arguments of the command's functions that are texts; of the modules, all are but those of functions that tell no trouble
COMMAND = {"fail": (1, 2), "finding": (2,), "refuse_line": (2,), "refuse_xml": (0,), "undo_and_fail": (3,)}
NO_TROUBLE = re.compile(r"\w+_(?:info|dbg)(?:_\w+)?|seq_(?:printf|puts)|sysfs_emit(?:_at)?|s?scanf|TP_printk|MODULE_\w+|DLEND_\w+|\w*queue|"
                        r"\w*thread\w*|\w*name|request_\w+")
STRING = r'"(?:\\.|[^"\\\n])*"'
NOT_CODE = re.compile(rf"{STRING}|'(?:\\.|[^'\\\n])+'|/\*.*?\*/|//[^\n]*", re.S)
DIRECTIVE = re.compile(r"%[-+ #0]*[\d*]*(?:\.[\d*]+)?(?:hh|h|ll|l|z|t|j)?(?:p[A-Za-z]*\d?|[diouxXcsn%])")


def tidy(text):
    return re.sub(r"\.{3,}(?:[:.]?\.{3,})*", "...", re.sub(r"\s+", " ", text)).strip(" :;,")


def says_something(text):
    return len(re.sub(r"[^A-Za-z]", "", text)) >= LEAST_LETTERS and " " in text


def strings(path):
    """(the calls around it, as [function, number of the argument, that of its first string]; what is before it; text) of each
    string of a file in C"""
    code = NOT_CODE.sub(lambda m: m[0] if m[0][0] in "\"'" else " ", path.read_text(encoding="utf-8")).replace("finding(LEVEL_OK", "well(")
    around = []
    for m in re.finditer(rf"((?:{STRING}\s*)+)|(\w*)\(|([);{{}}])|,", code):
        if m[1]:
            for call in around:
                call[2] = call[1] if call[2] is None else call[2]
            text = "".join(word[1:-1] for word in re.findall(STRING, m[1]))
            text = re.sub(r"\\(.)", lambda c: " " if c[1] in "nt" else c[1], text)
            yield [call for call in around if call[0]], code[:m.start()].rstrip()[-6:], tidy(DIRECTIVE.sub("...", text))
        elif m[2] is not None:
            around.append([m[2], 0, None])
        elif m[3] == ")":
            around = around[:-1]
        elif m[3]:
            around = []
        elif around:
            around[-1][1] += 1


def is_of_modules(around, before, text):
    """What is a format, or the value of a variable or a function: a reason, which somebody else prints"""
    if len(text.split()) < LEAST_WORDS or any(NO_TROUBLE.fullmatch(name) for name, *_ in around):
        return False
    return all(number == first for _, number, first in around) if around else bool(re.search(r"[=?:]$|return$", before))


def is_of_command(around, _before, _text):
    return any(number in COMMAND.get(name, ()) for name, number, _ in around) and \
        all(number == first for name, number, first in around if name not in COMMAND)


def python_text(node):
    """An expression as text; None if it is none"""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "..." for part in node.values)
    return None


def python_strings(path):
    """(whether it is what or why of a failure, text)"""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    failures = {id(inner) for call in ast.walk(tree) if isinstance(call, ast.Call) and getattr(call.func, "id", "") in ("Failure", "Unknown", "Unproven")
                for argument in call.args[:2] for inner in ast.walk(argument)}
    for node in ast.walk(tree):
        text = python_text(node)
        if text and id(node) not in inside:
            yield id(node) in failures, tidy(text)


def sources():
    """({text: where} of messages, all texts)"""
    messages, every = {}, set()
    for folder, is_message in [*((folder, is_of_modules) for folder in ("iommu", "ntb", "lender", "borrower", "mdev", "native")), ("tools", is_of_command)]:
        for path in (TOP / folder).glob("*.[ch]"):
            for around, before, text in strings(path):
                every.add(text)
                if says_something(text) and is_message(around, before, text):
                    messages[text] = path.relative_to(TOP)
    for path in (TOP / "tools").glob("*/*.py"):
        for is_failure, text in python_strings(path):
            every.add(text)
            if is_failure and says_something(text):
                messages[text] = path.relative_to(TOP)
    for path in [*(TOP / "debian").glob("dlend*"), TOP / "dist/ntb/ntb-drivers"]:
        for text in re.findall(r'\b(?:echo "dlend: |say ")(\S.*)"', path.read_text(encoding="utf-8")):
            messages["dlend: " + tidy(re.sub(r"\$\(.*\)|\$[\w*]+", "...", text))] = path.relative_to(TOP)
    return messages, frozenset(text for text in every | messages.keys() if says_something(text))


def entries(text):
    """(line, texts, what is said of them) of each entry"""
    for m in re.finditer(r"^- (`.*(?:\n  .*)*)\n((?:\n+  .*)*)", text, re.M):
        yield text.count("\n", 0, m.start()) + 1, [tidy(span) for span in re.findall(r"`([^`]+)`", m[1])], m[2].strip()


@lru_cache(maxsize=None)
def regex(text):
    return re.compile(".*".join(map(re.escape, text.split("..."))))


def is_known(text, known):
    """Whether an entry has it, or a part of an entry's text is it, maybe cut short"""
    return any(regex(part).fullmatch(text) or regex(text).search(part) for part in known)


@lru_cache(maxsize=None)
def is_there(text, every):
    """Whether the sources have it, or all parts that it is put together of"""
    if not says_something(text) or any(regex(text).search(other) or regex(other).fullmatch(text) for other in every):
        return True
    return any(is_there(text[:m.start()], every) and is_there(text[m.end():], every) for m in re.finditer("[:;,] ", text))


def parts(text):
    """All that it may be put together of"""
    ends = [0, *(m.end() for m in re.finditer(": ", text)), len(text) + 2]
    return {text[begin:end - 2] for n, begin in enumerate(ends) for end in ends[n + 1:]}


def main():
    with Tap() as t:
        messages, every = sources()
        page = (TOP / "docs/trouble.md").read_text(encoding="utf-8")
        catalogue = list(entries(page))
        known = {part for _, texts, _ in catalogue for text in texts for part in parts(text) if says_something(part)}
        t.equal(sorted(f"{where}: {text}" for text, where in messages.items() if not is_known(text, known)), [], "each message has an entry")
        t.equal([f"{line}: {text}" for line, texts, _ in catalogue for text in texts if not is_there(text, every)], [],
                "each text of an entry is in the sources")
        t.equal([line for line, texts, said in catalogue if not texts or len(said) < 10], [], "each entry says something")
        t.equal([n for n, line in enumerate(page.splitlines(), 1) if len(line) > COLUMNS], [], f"no line has more than {COLUMNS} columns")
        t.ok(len(messages) > 400, f"hundreds of messages were found ({len(messages)})")


main()
