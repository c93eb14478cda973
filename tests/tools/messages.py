#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The errors and warnings that the kernel's modules and the dlend command can print, as the sources have them.

  tests/tools/messages.py         a line for each: FILE:LINE, where it is met, text
  tests/tools/messages.py WORD    only those of which a part is WORD

In a text, "..." stands for what is filled in when it is printed.  messages.t holds docs/trouble.md against them.

log        the kernel's log
reason     what stands behind the colon of such a message, in the file last_error of a link, in a device's state
command    standard error of dlend: what and why; what to do follows on the next line
doctor     dlend doctor: name of the check and what was found
programs   standard error of dlend migrate
packages   standard error of dpkg, apt and DKMS; lines that begin with blanks go on with the one before

Not a compiler: it knows how this project writes C.  Where it cannot follow a value, it takes it for "...".
"""
import ast
import re
import sys
from collections import namedtuple
from itertools import product
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
KERNEL = ("iommu", "ntb", "lender", "borrower", "mdev", "native")
GAP = "..."
MOST = 12       # of a message's versions; of more, the parts that differ are gaps

Message = namedtuple("Message", "file line where text")

# Function: (how the message looks, number of the argument that is its text)
LOG = {f"{kind}_{level}{how}": ("{}", 0 if kind == "pr" else 1)
       for kind in ("dev", "pci", "pr", "netdev") for level in ("emerg", "alert", "crit", "err", "warn", "notice")
       for how in ("", "_once", "_ratelimited")}
LOG.update({
    "WARN": ("{}", 1),
    "WARN_ONCE": ("{}", 1),
    "dlend_link_set_error": ("{}", 1),
    "dlend_bringup_set_error": ("{}", 1),
    "dlend_bringup_abort": ("{}", 1),
    "dlend_link_renew": ("{}", 1),
    "dlend_link_restart": ("{}", 1),
    "dlend_irq_source_fail": ("{}", 1),
    "dlend_report_err": ("DMA windows: {}", 1),
    "dlend_condition_fail": ("borrowed device unusable: {}; the guest reads 0xff from it", 2),
    "dlend_ended_lose": ("borrowed device unusable: {}; the guest reads 0xff from it", 2),
    "dlend_move_err": ("the VM does not move: {}", 2),
    "dlend_native_fn_fails": ("{}", 1),
    "dlend_native_lost": ("the attached device is lost: {}", 1),
    "dlend_move_lost": ("borrowed device unusable: the VM cannot go on with it on this host{}; the guest reads 0xff from it", 1),
    "lend_lease_revoke": ("taken from node ... ({})", 1),
    "lend_lease_take_back": ("taken from node ... ({})", 2),
})
# The same for the command: functions that fail() with what they are given
COMMAND = {
    "check_limit": ("the guest has not enough {}: ... are taken and ... more are needed, of ...", 0),
    "refuse_line": ("..., line ...: {}", 2),
    "refuse_xml": ("what was read is no libvirt domain: {}", 0),
    "undo_and_fail": ("{}: ...", 3),
}
# Where a reason is written, for somebody else to print
REASON = {"snprintf": 2, "scnprintf": 2, "strscpy": 1}
REASON_PLACE = re.compile(r"(?:^|[.>])(?:why|\w*reason)$")
# The exceptions of programs in Python that carry a message
FAILURES = ("Failure", "Unknown", "Unproven")
# A progress line of the command that is a warning
WARNS = re.compile(r"\b(?:ignored|refused|cannot|could not|no device)\b")

DIRECTIVE = re.compile(r"%[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|z|t|j)?(p[eaRrMmI]?\d?|[diouxXcsfgn%])")
EXPRESSION = r'((?:"(?:\\.|[^"\\])*"|[^;"])*);'
STRING = re.compile(r'"((?:\\.|[^"\\])*)"')
ESCAPES = {r"\n": "\n", r"\t": "\t", r"\"": '"', r"\\": "\\", r"\0": ""}


class Source:
    """A file: its code without comments, where its functions are, and the strings that it gives names to."""

    def __init__(self, top, path):
        self.name = str(path.relative_to(top))
        code = blank_comments(path.read_text(encoding="utf-8"))
        self.strings = {}       # name: expression
        for found in re.finditer(r'^#define[ \t]+(\w+)[ \t]+("[^\n]*)$', code, re.M):
            self.strings[found[1]] = found[2]
        # What a macro prints is met where it is used
        self.code = re.sub(r"^#(?:[^\n\\]|\\.|\\\n)*", lambda m: re.sub(r"[^\n]", " ", m[0]), code, flags=re.M)
        for found in re.finditer(r"^(?:static )?const char (\w+)\[\] =" + EXPRESSION, self.code, re.M):
            self.strings[found[1]] = found[2]
        self.functions = [(m.start(), m.end(), *head_of(self.code, m.start())) for m in
                          re.finditer(r"^\{$.*?^\}", self.code, re.M | re.S)]

    def function_at(self, place):
        """(start, end, name, parameters) of the function around it, or None"""
        return next((f for f in self.functions if f[0] <= place < f[1]), None)

    def line(self, place):
        return self.code.count("\n", 0, place) + 1


def blank_comments(text):
    """Comments become blanks, so that places stay."""
    def blank(m):
        return m[0] if m[0][0] in "\"'" else re.sub(r"[^\n]", " ", m[0])
    return re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', blank, text, flags=re.S)


def head_of(code, brace):
    """Name and parameters of the function whose body begins there."""
    lines = code[:brace].rstrip("\n").split("\n")
    head = lines.pop()
    while lines and head.startswith(("\t", " ")):
        head = lines.pop() + " " + head.strip()
    found = re.search(r"(\w+)\((.*)\)", head)
    return (found[1], re.findall(r"(\w+)(?:\[\])?\s*(?:,|$)", found[2])) if found else ("", [])


def split_arguments(code, start):
    """The arguments of a call; start: behind its "(" """
    depth, at, begin, arguments = 0, start, start, []
    while at < len(code):
        char = code[at]
        if char == '"' or char == "'":
            at = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'').match(code, at).end()
            continue
        if char in "([{":
            depth += 1
        elif char in ")]}":
            if not depth:
                return [*arguments, code[begin:at].strip()]
            depth -= 1
        elif char == "," and not depth:
            arguments.append(code[begin:at].strip())
            begin = at + 1
        at += 1
    return arguments


def split_ternary(expression):
    """[value, value] of "condition ? value : value"; None if it is none"""
    depth, question, nested = 0, -1, 0
    for m in re.finditer(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[][(){}?:]', expression):
        if m[0] in ("(", "[", "{"):
            depth += 1
        elif m[0] in (")", "]", "}"):
            depth -= 1
        elif m[0] == "?" and not depth:
            nested += question >= 0
            question = m.end() if question < 0 else question
        elif m[0] == ":" and not depth and question >= 0:
            if not nested:
                return [expression[question:m.start()], expression[m.end():]]
            nested -= 1
    return None


def unescape(literal):
    return re.sub(r"\\.", lambda m: ESCAPES.get(m[0], m[0][1]), literal)


class Reader:
    """Follows values through the sources."""

    def __init__(self, sources):
        self.sources = sources
        self.strings = {name: (source, text) for source in sources for name, text in source.strings.items()}
        self.words = {}         # functions that return text: name: (source, function)
        for source in sources:
            for function in source.functions:
                if re.search(r"const char \*" + re.escape(function[2]) + r"\($", source.code[:function[0]].rsplit("\n\n", 1)[-1]
                             .split("(")[0] + "("):
                    self.words[function[2]] = (source, function)

    def values(self, expression, source, function, depth=0):
        """All texts that an expression can have."""
        expression = expression.strip()
        if depth > 12:
            return [GAP]
        while expression.startswith("(") and expression.endswith(")") and len(split_arguments(expression, 1)) == 1 \
                and len(split_arguments(expression, 1)[0]) == len(expression[1:-1].strip()):
            expression = expression[1:-1].strip()
        both = split_ternary(expression)
        if both:
            return [text for side in both for text in self.values(side, source, function, depth + 1)]
        literal = self.literal(expression)
        if literal is not None:
            return [literal]
        call = re.match(r"(\w+)\(", expression)
        if call and expression.endswith(")"):
            return self.call_values(call[1], split_arguments(expression, call.end()), source, function, depth)
        if re.fullmatch(r"\w+", expression):
            return self.name_values(expression, source, function, depth)
        return [GAP]

    def literal(self, expression):
        """Literals and names of literals, one after the other; None if there is anything else"""
        rest, text = expression, ""
        while rest:
            found = STRING.match(rest) or re.match(r"([A-Z_]{3,})\b", rest)
            if not found or not found[0].startswith('"') and found[1] not in self.strings:
                return None
            text += unescape(found[1]) if found[0].startswith('"') else self.literal(self.strings[found[1]][1]) or ""
            rest = rest[found.end():].strip()
        return text if expression else None

    def call_values(self, name, arguments, source, function, depth):
        if name == "text":
            return self.formats(arguments, source, function, depth)
        if name in self.words:
            there, its = self.words[name]
            found = re.findall(r"\breturn " + EXPRESSION, there.code[its[0]:its[1]])
            texts = [text for value in found if value != "NULL" for text in self.values(value, there, its, depth + 1)]
            return texts if texts and GAP not in texts else [GAP]
        return [GAP]

    def name_values(self, name, source, function, depth):
        if name == "NULL":
            return [""]
        found = []
        if function:
            body = source.code[function[0]:function[1]]
            found = re.findall(r"(?<![.>\w])" + name + r" = " + EXPRESSION, body)
            if any(re.search(r"\b" + name + r"\b", STRING.sub("", value)) for value in found):
                return [GAP]        # put together in a loop
            for m in re.finditer(r"\bsn?c?printf\(" + name + r",", body):
                formats = split_arguments(body, m.start() + body[m.start():].index("(") + 1)[2:]
                found.append("text(" + ", ".join(formats) + ")")
        if not found and name in self.strings and name not in (function[3] if function else ()):
            there, text = self.strings[name]
            return self.values(text, there, None, depth + 1)
        return [text for value in found for text in self.values(value, source, function, depth + 1)] or [GAP]

    def formats(self, arguments, source, function, depth=0):
        """All texts of a format and its arguments."""
        texts = []
        for form in self.values(arguments[0], source, function, depth + 1):
            rest = iter(arguments[1:])
            parts = [[form[:0]]]
            at = 0
            for m in DIRECTIVE.finditer(form):
                parts.append([form[at:m.start()]])
                at = m.end()
                if m[1] == "%":
                    parts.append(["%"])
                    continue
                value = next(rest, None)
                options = self.values(value, source, function, depth + 1) if m[1] == "s" and value else [GAP]
                known = {option for option in options if GAP not in option}
                parts.append(sorted(known if len(known) == len(set(options)) else {GAP, *filter(says_something, known)}))
            parts.append([form[at:]])
            count = 1
            for part in parts:
                count *= len(part)
            if count > MOST:
                parts = [part if len(part) == 1 else [GAP] for part in parts]
            texts += ["".join(version) for version in product(*parts)]
        return texts


def tidy(text):
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r"\.{3,}(?:[:.]?\.{3,})*", GAP, text)


def calls(source, names):
    """(name, place, arguments) of each call of one of these functions"""
    for m in re.finditer(r"\b(" + "|".join(sorted(names, key=len, reverse=True)) + r")\(", source.code):
        if source.function_at(m.start()):
            yield m[1], m.start(), split_arguments(source.code, m.end())


def says_something(text):
    return bool(re.search(r"[a-z]{2}", text.replace(GAP, "")))


def kernel_sources(top):
    return [Source(top, path) for folder in KERNEL for path in sorted((top / folder).glob("*.c"))]


def kernel_messages(top):
    sources = kernel_sources(top)
    reader = Reader(sources)
    for source in sources:
        for name, place, arguments in calls(source, LOG):
            look, number = LOG[name]
            function = source.function_at(place)
            handed_on = tidy(LOG[function[2]][0].format(GAP)) if function[2] in LOG else ""
            for text in reader.formats(arguments[number:], source, function):
                whole = tidy(look.format(text))
                if says_something(whole) and tidy(text) != GAP and whole != handed_on:
                    yield Message(source.name, source.line(place), "log", whole)
        for name, place, arguments in calls(source, REASON):
            function = source.function_at(place)
            if REASON_PLACE.search(arguments[0]) and is_elsewhere(arguments[0], source, function):
                for text in reader.formats(arguments[REASON[name]:], source, function):
                    if says_something(text):
                        yield Message(source.name, source.line(place), "reason", tidy(text))
        for m in re.finditer(r"\*why = " + EXPRESSION, source.code):
            for text in reader.values(m[1], source, None):
                if " " in text:     # a single word names a field of a message
                    yield Message(source.name, source.line(m.start()), "reason", tidy(text))


def is_elsewhere(place, source, function):
    """Not a variable of the function itself: what is in that is found where it is printed."""
    return not re.fullmatch(r"\w+", place) or place in function[3] or \
        not re.search(r"\bchar " + place + r"\[", source.code[function[0]:function[1]])


def command_messages(top):
    sources = [Source(top, path) for path in sorted((top / "tools").glob("*.c"))]
    reader = Reader(sources)
    for source in sources:
        for name, place, arguments in calls(source, ("fail", "finding", "progress", *COMMAND)):
            function = source.function_at(place)
            handed_on = tidy(COMMAND[function[2]][0].format(GAP)) if function[2] in COMMAND else ""
            for where, text in command_texts(name, arguments, reader, source, function):
                if says_something(text) and tidy(text) != handed_on:
                    yield Message(source.name, source.line(place), where, tidy(text))


def command_texts(name, arguments, reader, source, function):
    """(where, text) of each text of a call"""
    def values(number):
        return reader.values(arguments[number], source, function)

    if name == "fail":
        for what, why in product(values(1), values(2)):
            yield "command", f"{what}: {why}" if why else what
    elif name in COMMAND:
        look, number = COMMAND[name]
        for text in values(number):
            if says_something(text):
                yield "command", look.format(text)
    elif name == "finding":
        if arguments[0] != "LEVEL_OK":
            for check, what in product(values(1), values(2)):
                yield "doctor", f"{check}: {what}"
    else:
        for text in reader.formats(arguments, source, function):
            if WARNS.search(text):
                yield "command", text


# Programs in Python

def python_values(node, function):
    """All texts that an expression of Python can have; function: the definition around it"""
    if isinstance(node, ast.Constant):
        return [str(node.value) if node.value is not None else ""]
    if isinstance(node, ast.JoinedStr):
        parts = [python_values(part.value, None) if isinstance(part, ast.FormattedValue) else [part.value] for part in node.values]
        return ["".join(version) for version in product(*parts)][:MOST]
    if isinstance(node, ast.IfExp):
        return python_values(node.body, function) + python_values(node.orelse, function)
    if isinstance(node, ast.Name) and function:
        found = [value for statement in ast.walk(function) if isinstance(statement, ast.Assign)
                 for name, value in assigned(statement) if name == node.id]
        return [text for value in found for text in python_values(value, None)] or [GAP]
    return [GAP]


def assigned(statement):
    """(name, value) of each name that a statement gives a value to"""
    target = statement.targets[0]
    if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
        return [(t.id, v) for t, v in zip(target.elts, statement.value.elts) if isinstance(t, ast.Name)]
    return [(target.id, statement.value)] if isinstance(target, ast.Name) else []


def program_messages(top):
    for path in sorted((top / "tools").glob("*/*.py")):
        name = str(path.relative_to(top))
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inside = {}     # node: the innermost function around it
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                inside.update({node: function for node in ast.walk(function)})
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FAILURES:
                texts = [python_values(argument, inside.get(node)) for argument in node.args[:2]]
                for what, why in product(texts[0], texts[1] if len(texts) > 1 else [""]):
                    text = tidy(f"{what}: {why}" if why else what)
                    if says_something(text):
                        yield Message(name, node.lineno, "programs", text)
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "REFUSED":
                for row in node.value.elts:
                    yield Message(name, row.lineno, "programs", f"... cannot stay while ... moves: {row.elts[1].value}")


def packages_messages(top):
    for path in sorted([*top.glob("debian/dlend*"), *top.glob("dist/ntb/ntb-drivers")]):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = re.search(r'\becho "dlend: (\S.*)" >&2|\bsay "(\S.*)"', line)
            text = tidy(re.sub(r"\$\(.*\)|\$[\w*]+", GAP, found[1] or found[2])) if found else ""
            if says_something(text):
                yield Message(str(path.relative_to(top)), number, "packages", f"dlend: {text}")


def messages(top=TOP):
    """All of them, each text of a place once."""
    return sorted({*kernel_messages(top), *command_messages(top), *program_messages(top), *packages_messages(top)})


if __name__ == "__main__":
    for message in messages():
        if all(word in " ".join(map(str, message)) for word in sys.argv[1:]):
            print(f"{message.file}:{message.line} {message.where}: {message.text}")
