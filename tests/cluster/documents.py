# SPDX-License-Identifier: GPL-2.0-only
"""What `dlend --json` prints, against the schemas in dist/schema.

    check_output(words, out, err)       each document that a command has printed, if --json is among its words, or always (CDI)
    check_document(document)            one

A schema allows members that it does not name, so that one may be added without a new version.  Here they are refused: a
member that dlend prints has to be in its schema.  Knows nothing of hosts.
"""
import json
import os
from functools import lru_cache
from pathlib import Path

import jsonschema

SCHEMAS = Path(__file__).resolve().parent.parent.parent / "dist/schema"


class Wrong(AssertionError):
    """A document that its schema does not allow."""


def strict(schema, file):
    """The same without members that it does not name, and with references as they are in bundle()."""
    if isinstance(schema, list):
        return [strict(part, file) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value, file) for key, value in schema.items()}
    if isinstance(made.get("$ref"), str):
        other, _, inside = made["$ref"].partition("#")
        made["$ref"] = f"#/$defs/{other or file}{inside}"
    if made.get("type") == "object" and "properties" in made:
        made.setdefault("additionalProperties", False)
    return made


@lru_cache
def bundle():
    """All schemas by the names of their files, in one that says nothing itself."""
    return {"$schema": jsonschema.Draft202012Validator.META_SCHEMA["$id"],
            "$defs": {path.name: strict(json.loads(path.read_text(encoding="utf-8")), path.name) for path in SCHEMAS.glob("*.json")}}


@lru_cache
def validator(file):
    return jsonschema.Draft202012Validator({**bundle(), "$ref": f"#/$defs/{file}"})


def documents(text):
    """Those that begin a line of a text, which may have lines for people, too."""
    at = 0
    while at < len(text):
        if text[at] == "{":
            document, at = json.JSONDecoder().raw_decode(text, at)
            yield document
        at = text.find("\n", at) + 1 or len(text)


def check_document(document):
    """It says itself which verb it is of, unless it is an error without one, or in CDI's form."""
    file = f"{document.get('verb') or ('cdi' if 'cdiVersion' in document else 'error')}.json"
    error = jsonschema.exceptions.best_match(validator(file).iter_errors(document))
    if error:
        raise Wrong(f"dist/schema/{file}, at /{'/'.join(map(str, error.absolute_path))}: {error.message[:500]}\n{json.dumps(document)[:1000]}")


def check_output(words, *texts):
    """words: of the command, or all of it as a shell gets it; texts: what it has printed"""
    words = words.split() if isinstance(words, str) else [os.path.basename(word) for word in words]
    for document in (found for text in texts if "--json" in words or "cdi" in words for found in documents(text)):
        check_document(document)
        if document.get("verb") and document["verb"] not in words:
            raise Wrong(f"{words}: a document of {document['verb']}")
