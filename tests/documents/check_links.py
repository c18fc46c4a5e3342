#!/usr/bin/env python3
"""Every relative link of every Markdown file and notebook leads to a file, and every file of docs/ and notebooks/ is reachable from
README.md."""
import json
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parents[2]
files = [*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "notebooks").glob("*.md"), *(root / "notebooks").glob("*.ipynb")]
problems, seen, queue = [], set(), [root / "README.md"]


def prose(file):
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".ipynb":
        return text
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")


while queue:
    file = queue.pop()
    if file in seen:
        continue
    seen.add(file)
    for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose(file)):
        if re.match(r"[a-z]+:", link):
            continue
        target = (file.parent / link).resolve()
        if not target.exists():
            problems.append(f"{file.relative_to(root)}: dead link {link}")
        elif target.suffix in (".md", ".ipynb"):
            queue.append(target)
        elif target.is_dir() and target.is_relative_to(root / "docs"):
            queue.extend(target.glob("*.md"))
problems += [f"{file.relative_to(root)}: not reachable from README.md" for file in files if file not in seen]
print("\n".join(problems) or f"{len(seen)} documents, all reachable, no dead link")
sys.exit(1 if problems else 0)
