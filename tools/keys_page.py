#!/usr/bin/env python3
"""The reference of a scenario's keys, docs/keys.md, from `panpipe schema`.

tools/keys_page.py PANPIPE             the page on standard output
tools/keys_page.py PANPIPE --update    writes docs/keys.md
tools/keys_page.py PANPIPE --check     exit code 1 if docs/keys.md is another
"""

import json
import pathlib
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs/keys.md"
HEAD = """<!-- made by tools/keys_page.py from `panpipe schema`: do not edit -->

# Keys of a scenario

[File formats](file-formats.md) has examples. An absent key takes its default. `auto` leaves a value to
[`plan`](command-line.md#plan); the other verbs take the default.
"""
REPEATED = "cluster.groups[]"  # its maps are those of the cluster itself


def forms_of(schema):
    return schema.get("anyOf", [schema])


def keys_of(schema, path=""):
    """(path, its schema, whether it is required) of every key, each followed by the keys in it; "[]" is an item of a list."""
    for form in forms_of(schema):
        if "items" in form:
            yield from keys_of(form["items"], f"{path}[]")
        for name, value in form.get("properties", {}).items():
            inner = f"{path}.{name}".lstrip(".")
            yield inner, value, name in form.get("required", [])
            yield from keys_of(value, inner)


def values_of(schema):
    """What a value may be, in words."""
    words = []
    for form in forms_of(schema):
        if "enum" in form:
            words += [f"`{word}`" for word in form["enum"]]
        elif "anyOf" in form:
            words.append(f"as in `{form['examples'][0]}`")
        elif form.get("type") == "array":
            words.append("a list")
        elif form.get("type") == "object":
            words.append("a map")
        elif form.get("type") == "integer":
            words.append(f"a whole number of at least {form['minimum']}" if form["minimum"] else "a whole number")
        elif "const" in form:
            continue
        elif form.get("type") == "string" and "examples" in schema:
            words.append(f"as in `{schema['examples'][0]}`")
        elif "type" in form:
            words.append({"number": "a number", "boolean": "`true`, `false`"}.get(str(form["type"]), "a text"))
    return ", ".join(dict.fromkeys(words))


def meaning_of(schema):
    more = f" ([more]({schema['x-page']}))" if "x-page" in schema else ""
    ignored = (
        "; predictions ignore it" if schema.get("x-acts-on") == "training" and "predictions" not in schema["description"] else ""
    )
    return schema.get("description", "") + ignored + more


def row(key, schema, required):
    default = "required" if required else f"`{schema['default']}`" if "default" in schema else schema.get("x-otherwise", "")
    cells = [f"`{key}`", values_of(schema), default, meaning_of(schema)]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def table(rows):
    return ["| key | value | default | meaning |", "|---|---|---|---|", *(row(*each) for each in rows), ""]


def page(schema):
    listed = [each for each in keys_of(schema) if not each[0].startswith(REPEATED + ".")]
    inner = {name: [each for each in listed if each[0].startswith((name + ".", name + "["))] for name in schema["properties"]}
    out = [HEAD, *table(each for each in listed if each[0] in schema["properties"])]
    for name, rows in inner.items():
        if rows:
            out += [f"## {name}", "", *table(rows)]
    return "\n".join(out)


def main(program, mode=""):
    text = page(json.loads(subprocess.run([program, "schema"], check=True, capture_output=True, text=True).stdout))
    if mode == "--update":
        PAGE.write_text(text, encoding="utf-8")
    elif mode == "--check":
        if PAGE.read_text(encoding="utf-8") != text:
            print("docs/keys.md is stale: tools/keys_page.py PANPIPE --update")
            return 1
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
