#!/usr/bin/env python3
"""Wraps the prose of Markdown files at 120 characters: `tools/reflow.py FILE...`.

Only paragraphs and list items with a longer line change. Tables, code, headings and comments stay as they are. A line never breaks
inside a link, a code span or a comment, so that tools which read line by line find them whole."""

import pathlib
import re
import sys

WIDTH = 120
FENCE = re.compile(r"\s*(```|~~~)")
ITEM = re.compile(r"( *)([*+-]|\d+\.) +")
# A word of a line: links, code spans and `<!-- mark -->text<!-- /mark -->` count as letters.
WORD = re.compile(r"(?:<!-- \S+: .*?-->.*?<!-- /\w+ -->|<!--.*?-->|!?\[(?:[^\]\[]|\[[^\]]*\])*\]\([^)]*\)|``.*?``|`[^`]*`|\S)+")
# A line must not begin with these: Markdown would read a list, a heading, a quotation or a table.
MARK = re.compile(r"([*+>|-]|#+|\d+\.)$")


def blocks(text):
    """(number of the first line, lines, whether they are prose): a paragraph or a list item each, or lines that stay as they are."""
    kept, first, inside, code = [], 0, False, False
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line) is not None
        code = not kept and line.startswith("    ") and (code or not ITEM.match(line))
        if inside or fence or code or not line.strip() or re.match(r"\s*(\||#+ |<!--)", line):
            if kept:
                yield first, kept, True
                kept = []
            yield number, [line], False
        else:
            if kept and ITEM.match(line):
                yield first, kept, True
                kept = []
            first = first if kept else number
            kept.append(line)
        inside ^= fence
    if kept:
        yield first, kept, True


def words_of(lines):
    """The words of a block; one that must not begin a line is joined to the one before it."""
    words = []
    for word in WORD.findall(" ".join(line.strip() for line in lines)):
        if words and MARK.match(word):
            words[-1] += " " + word
        else:
            words.append(word)
    return words


def wrapped(lines):
    """The lines of a block of prose, none longer than WIDTH where a space allows it."""
    item = ITEM.match(lines[0])
    head = item.group() if item else re.match(" *", lines[0]).group()
    out, indent = [], " " * len(head)
    line = head
    for word in words_of([lines[0][len(head) :], *lines[1:]]):
        if line.strip() and line != head and len(line) + 1 + len(word) > WIDTH:
            out.append(line)
            line = indent + word
        else:
            line += word if line in (head, indent) else " " + word
    return [*out, line]


def reflowed(text):
    lines = []
    for _, block, prose in blocks(text):
        lines += wrapped(block) if prose and max(map(len, block)) > WIDTH else block
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = pathlib.Path(name)
        path.write_text(reflowed(path.read_text(encoding="utf-8")), encoding="utf-8")
