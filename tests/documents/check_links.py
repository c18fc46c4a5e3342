#!/usr/bin/env python3
"""Every relative link of every Markdown file leads to a file, and every file of docs/ is reachable from README.md."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parents[2]
files = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
problems, seen, queue = [], set(), [root / "README.md"]
while queue:
    file = queue.pop()
    if file in seen:
        continue
    seen.add(file)
    for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", file.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", link):
            continue
        target = (file.parent / link).resolve()
        if not target.exists():
            problems.append(f"{file.relative_to(root)}: dead link {link}")
        elif target.suffix == ".md":
            queue.append(target)
        elif target.is_dir() and target.is_relative_to(root / "docs"):
            queue.extend(target.glob("*.md"))
problems += [f"{file.relative_to(root)}: not reachable from README.md" for file in files if file not in seen]
print("\n".join(problems) or f"{len(seen)} documents, all reachable, no dead link")
sys.exit(1 if problems else 0)
