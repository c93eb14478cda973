# SPDX-License-Identifier: GPL-2.0-only
"""Which scenarios have passed already on the code as it is, for what takes longer than one sitting (make check-debug).

key(scenario)                 of a scenario and the code that it runs now
note(key, passed, skipped)    it has passed, with so many cases
before(key)                   (passed, skipped) of when it did, or None

The code is our modules, the test bed and the scenario, and the kernel, which is cached by content.  Modules count by the
copy of their sources that they were built from (tests/build): what was changed since does not run.  C is compared by its
tokens, so that comments and white space may change.  The dlend command and what else packages install are not part of it:
whether these work is shown by `make check`, on the kernels that people have.  Notes are in the cache, a file each.
"""
import hashlib
import json
import os
import re
import subprocess
from functools import lru_cache
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
FOLDERS = subprocess.run((TOP / "tests/module-folders",), stdout=subprocess.PIPE, text=True, check=True).stdout.split()
ALONE = {"native": "dlend_native"}  # what only some scenarios load, who name its module
BED = ("tests/ntbsim", "tests/cluster")
LEFT_OUT = (".md", "/mkdeb", ".o", ".ko", ".mod", ".mod.c", ".cmd", ".pyc")
SETTINGS = ("DLEND_KERNEL", "DLEND_IOMMUFD", "DLEND_LONG", "DLEND_NTB", "DLEND_IOMMU", "DLEND_LENDER_IOMMU", "DLEND_DIRECT")
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|\w+|[^\s\w]', re.S)


def tokens(text):
    return "\n".join(token for token in TOKEN.findall(text) if not token.startswith(("/*", "//")))


def part(path):
    data = path.read_bytes()
    return tokens(data.decode("utf-8", "replace")).encode() if path.suffix in (".c", ".h") else data


def built(top):
    """The directory with the sources that the modules for this kernel were built from."""
    kernel = os.path.basename(os.environ.get("DLEND_KERNEL") or "")
    what = "debug" if kernel.startswith("debug-") else "6.12" if kernel.startswith("stock-6.12") else "7.2"
    copy = top / "build" / f"obj-{what}"
    return copy if copy.is_dir() else top


def files(top, folders):
    for folder in folders:
        for path in sorted((top / folder).rglob("*")):
            if path.is_file() and path.parent.name != "t" and not path.name.startswith(".") and \
                    not str(path).endswith(LEFT_OUT):
                yield path


@lru_cache
def common(top, alone):
    """Of all that scenarios share that load those modules of ALONE."""
    sum_ = hashlib.sha256()
    sources = built(top)
    without = set(ALONE) - set(alone)
    rules = [line for line in (sources / "Kbuild").read_text(encoding="utf-8").splitlines()
             if line.strip() and not any(ALONE[folder] in line for folder in without)]
    sum_.update("\n".join(rules).encode())
    folders = [folder for folder in FOLDERS if folder not in without]
    for base, paths in ((sources, files(sources, folders)), (top, files(top, BED))):
        for path in paths:
            sum_.update(f"{path.relative_to(base)}\0".encode() + part(path) + b"\0")
    return sum_.hexdigest()


def key(scenario, top=None):
    """scenario: path below the top, as tests/run has it"""
    top = top or TOP
    own = sorted((top / scenario).parent.glob(Path(scenario).stem + ".*"))
    settings = {name: os.path.basename(os.environ.get(name) or "") for name in SETTINGS}
    texts = [path.read_text(encoding="utf-8") for path in own]
    alone = tuple(folder for folder, module in ALONE.items() if any(module in text for text in texts))
    words = [common(top, alone), scenario, json.dumps(settings), *texts]
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:32]


def directory():
    cache = os.environ.get("DLEND_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dlend"
    return Path(cache) / "passed"


def note(name, passed, skipped):
    directory().mkdir(parents=True, exist_ok=True)
    new = directory() / f".{os.getpid()}"
    new.write_text(json.dumps({"passed": passed, "skipped": skipped}), encoding="utf-8")
    new.replace(directory() / name)


def before(name):
    try:
        found = json.loads((directory() / name).read_text(encoding="utf-8"))
        return found["passed"], found["skipped"]
    except (OSError, ValueError, KeyError):
        return None
