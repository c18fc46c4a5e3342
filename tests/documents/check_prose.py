#!/usr/bin/env python3
"""Holds the documents to the rules of prose that a program can judge: lines of at most 120 characters, and plain English.

Tables, code, headings and comments are exempt from the length; pages whose head says `do not edit` are exempt from all, because a
tool writes them. A line is too long only where it could break: links and code spans stay whole."""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True

from reflow import WIDTH, blocks, wrapped

SUBJECT = "name the subject first: subject, verb, object"
# (pattern, remedy, a sentence that breaks the rule, one that does not). Each is looked for in sentences without their code spans and
# link targets.
HABITS = [
    (r"(?:^|(?<=[.!?:;] )|(?<=[.!?]\) ))(?:What|Whatever|Who|Whoever|Of)\b[^.?!]*(?:[.!]|$)", SUBJECT,
     "What memory says of cuts is known.", "What limits a step?"),
    (r"\bthat what\b", SUBJECT, "It means that what is kept is kept twice.", "It means that kept tensors are kept twice."),
    (r"\b[Ww]hoever\b", "name the person: 'a user who', 'if you'", "It helps whoever has a GPU.", "It helps a user who has a GPU."),
    (r"\bas \w+(?: \w+)? ha(?:s|ve) (?:it|them)\b", "write 'as in X' or 'as X defines it'", "Peaks are as the executor has them.",
     "Peaks are as in the executor."),
    (r"\b(?:says?|tells?|said|told) of\b", "write 'reports', 'states' or 'shows'", "The table says of each row.", "The table says so."),
    (r"\btells? (?!the user|you|them apart|apart)\w+", "write 'reports', 'states' or 'distinguishes'", "A line tells where it is.",
     "A line tells you where it is."),
    (r"\b(?:is|are|was|were|be) told\b", "write 'is reported'", "The default is told.", "The default is reported."),
    (r"\bin words\b", "write 'with a message'", "It is refused in words.", "It is refused with a message."),
    (r"\b[Ww]hatever (?:it|they|the|is|its)\b|\bhowever many\b", "write 'any', 'for every' or 'no matter which'", "It waits, however many there are.",
     "It waits for any number."),
    (r"\bbeside\b", "write 'next to', 'in addition to', 'with' or 'compared with'", "A transfer beside a pass.", "Besides, a pass."),
    (r"\b(?:is|are|was|were) there\.", "write 'exists', 'is available' or 'has arrived'", "LibTorch is there.", "There is LibTorch."),
    (r"\w  +\w", "write one space between words", "two  spaces", "one space"),
    (r"\b([a-z]+) \1\b(?<!that that)(?<!had had)", "a word stands twice", "of the the page", "the page that that page names"),
]


def pages():
    """Name and text of every document, also of the prose in notebooks. Records of measurements stay as they were written."""
    files = sorted(ROOT.glob("*.md"))
    for folder in ("docs", "notebooks", "tests", "validation/published"):
        files += sorted((ROOT / folder).rglob("*.md"))
    for file in files:
        text = file.read_text(encoding="utf-8")
        if "do not edit" not in text[:400]:
            yield file.relative_to(ROOT).as_posix(), text
    for file in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "markdown":
                yield f"{file.relative_to(ROOT).as_posix()}, cell {cell['id']}", "".join(cell["source"])


def bare(text):
    """A sentence as a reader sees it: link texts, no targets, code spans as one word."""
    text = re.sub(r"<!--.*?-->", "", text)
    text = re.sub(r"`+([^`]*)`+", lambda span: re.sub(r"\W", "_", span.group(1)), text)
    text = re.sub(r"\[\w", lambda start: start.group().lower(), text)  # a link may begin with the title of its page
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.sub(r"[\[\]]|\*(?=\S)|(?<=\S)\*", "", text)


def habits_of(text):
    for pattern, remedy, _, _ in HABITS:
        for match in re.finditer(pattern, text):
            yield " ".join(match.group().split()[:8]), remedy


def faults_of(name, text):
    for first, lines, prose in blocks(text):
        if prose:
            for number, line in enumerate(lines, first):
                if len(line) > WIDTH and len(wrapped([line])) > 1:
                    yield f"{name}:{number}: {len(line)} characters, at most {WIDTH}; 'tools/reflow.py {name}' wraps the paragraph"
            sentence = re.sub(r"^ *(?:[*+-]|\d+\.) +", "", lines[0])
            for found, remedy in habits_of(bare(" ".join([sentence.strip(), *(line.strip() for line in lines[1:])]))):
                yield f"{name}:{first}: '{found}': {remedy}"
        elif re.match(r"\s*\|", lines[0]):
            for cell in bare(lines[0].replace("\\|", "")).split("|"):
                for found, remedy in habits_of(cell.strip()):
                    yield f"{name}:{first}: '{found}': {remedy}"


def main():
    faults, documents = [], list(pages())
    for pattern, _, broken, kept in HABITS:
        if not re.search(pattern, broken) or re.search(pattern, kept):
            faults.append(f"check_prose.py: the rule '{pattern}' does not tell '{broken}' from '{kept}'")
    for name, text in documents:
        faults += faults_of(name, text)
    print("\n".join(faults) or f"{len(documents)} documents and cells in plain prose, no line over {WIDTH} characters")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
