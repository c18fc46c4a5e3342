#!/usr/bin/env python3
"""Every relative link of every Markdown file and notebook leads to a file and to a heading of it, every file of docs/ and notebooks/ is
reachable from README.md, and every path of the tree that a document names in a code span exists (`*` and `<topic>` stand for any text).
"""

import functools
import json
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parents[2]
files = [
    *root.glob("*.md"),
    *(root / "docs").rglob("*.md"),
    *(root / "notebooks").glob("*.md"),
    *(root / "notebooks").glob("*.ipynb"),
]
problems, seen, queue = [], set(), [root / "README.md"]


def prose(file):
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".ipynb":
        return text
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")


@functools.cache
def anchors(file):
    """The anchors of a page's headings, as GitHub and the site make them."""
    heads = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", file.read_text(encoding="utf-8"), flags=re.M | re.S), re.M)
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", head).lower()).strip().replace(" ", "-") for head in heads
    }


folders = {
    entry.name
    for entry in root.iterdir()
    if entry.is_dir() and entry.name not in ("build", "out") and not entry.name.startswith(".")
}
names = {file.name for folder in folders for file in (root / folder).rglob("*.[ch]pp")}


def absent_paths(text):
    """Paths in code spans that nothing in the tree has: those that begin with a folder of the root, and names of C++ files alone."""
    for span in re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)):
        for word in span.split():
            alone = re.fullmatch(r"\w+\.[ch]pp", word) and word not in names
            pattern = re.sub(r"<\w+>", "*", word)
            if alone or (
                "/" in word
                and word.split("/")[0] in folders
                and re.fullmatch(r"[\w./*-]+", pattern)
                and not any(root.glob(pattern.rstrip("/")))
            ):
                yield word


while queue:
    file = queue.pop()
    if file in seen:
        continue
    seen.add(file)
    problems += [f"{file.relative_to(root)}: no path {path}" for path in absent_paths(prose(file))]
    for link, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)[^)]*\)", prose(file)):
        if re.match(r"[a-z]+:", link):
            continue
        target = (file.parent / link).resolve() if link else file
        if not target.exists():
            problems.append(f"{file.relative_to(root)}: dead link {link}")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            problems.append(f"{file.relative_to(root)}: no heading for {link}#{anchor}")
        elif target.suffix in (".md", ".ipynb"):
            queue.append(target)
        elif target.is_dir() and target.is_relative_to(root / "docs"):
            queue.extend(target.glob("*.md"))
problems += [f"{file.relative_to(root)}: not reachable from README.md" for file in files if file not in seen]
print("\n".join(problems) or f"{len(seen)} documents, all reachable, no dead link")
sys.exit(1 if problems else 0)
