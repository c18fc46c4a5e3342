#!/usr/bin/env python3
"""Checks documents and comments by the rules of prose that a program can judge: plain English, and in documents lines of at most
120 characters.

Tables, code, headings and comments are exempt from the length; pages whose head has `do not edit` are exempt from all, because a
tool writes them. A line is too long only where it could break: links and code spans stay whole.

    check_prose.py [--count]     --count: how often comments and identifiers of the sources use each word of DIALECT, and nothing else
"""

import ast
import collections
import io
import json
import pathlib
import re
import sys
import tokenize

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools"))

from reflow import WIDTH, blocks, wrapped  # noqa: E402

SUBJECT = "name the subject first: subject, verb, object"
# (pattern, remedy, a sentence that breaks the rule, one that does not). Each is looked for in sentences without their code spans and
# link targets.
HABITS = [
    (
        r"(?:^|(?<=[.!?:;] )|(?<=[.!?]\) ))(?:What|Whatever|Who|Whoever|Of)\b[^.?!]*(?:[.!]|$)",
        SUBJECT,
        "What memory says of cuts is known.",
        "What limits a step?",
    ),
    (r"\bthat what\b", SUBJECT, "It means that what is kept is kept twice.", "It means that kept tensors are kept twice."),
    (
        r"\b[Ww]hoever\b",
        "name the person: 'a user who', 'if you'",
        "It helps whoever has a GPU.",
        "It helps a user who has a GPU.",
    ),
    (
        r"\bas \w+(?: \w+)? ha(?:s|ve) (?:it|them)\b",
        "write 'as in X' or 'as X defines it'",
        "Peaks are as the executor has them.",
        "Peaks are as in the executor.",
    ),
    (
        r"\b(?:says?|tells?|said|told) of\b",
        "write 'reports', 'states' or 'shows'",
        "The table says of each row.",
        "The table says so.",
    ),
    (
        r"\btells? (?!the user|you|them apart|apart)\w+",
        "write 'reports', 'states' or 'distinguishes'",
        "A line tells where it is.",
        "A line tells you where it is.",
    ),
    (r"\b(?:is|are|was|were|be) told\b", "write 'is reported'", "The default is told.", "The default is reported."),
    (r"\bin words\b", "write 'with a message'", "It is refused in words.", "It is refused with a message."),
    (
        r"\b[Ww]hatever (?:it|they|the|is|its)\b|\bhowever many\b",
        "write 'any', 'for every' or 'no matter which'",
        "It waits, however many there are.",
        "It waits for any number.",
    ),
    (
        r"\bbeside\b",
        "write 'next to', 'in addition to', 'with' or 'compared with'",
        "A transfer beside a pass.",
        "Besides, a pass.",
    ),
    (
        r"\b(?:is|are|was|were) there\.",
        "write 'exists', 'is available' or 'has arrived'",
        "LibTorch is there.",
        "There is LibTorch.",
    ),
    (r"\w  +\w", "write one space between words", "two  spaces", "one space"),
    (r"\b([a-z]+) \1\b(?<!that that)(?<!had had)", "a word stands twice", "of the the page", "the page that that page names"),
]
# Folders of the C++ and Python sources whose comments are checked for DIALECT.
SOURCE_FOLDERS = (
    "app",
    "base",
    "bench",
    "cli",
    "costmodel",
    "exec",
    "jobs",
    "planner",
    "present",
    "python",
    "schedule",
    "sim",
    "study",
    "tests",
    "tools",
    "validation",
)
# Words that a reader would have to learn, where the field or plain English has one: (word in a comment, word in an identifier,
# remedy, a comment that breaks the rule, one that does not). Standard uses are allowed: to tell apart, to meet a deadline.
# `fullest` is no dialect, because the interface names the fullest device.
DIALECT = [
    (
        r"\b(?:un)?told\b(?! apart)|\btell(?:s|ing)?\b(?!.*\bapart\b)",
        "tell|tells|told|untold",
        "report, state, distinguish",
        "The fault is told once.",
        "It tells two texts apart.",
    ),
    (
        r"(?<!page )(?<!paper )(?<!, )\b(?:says?|said|saying)\b",
        "say|says|said|saying",
        "report, state, print",
        "The verb says what it left out.",
        "As the paper says.",
    ),
    (
        r"\b(?:meets|met)\b(?! (?:at|the bound|a deadline)\b)",
        "meet|meets|met",
        "encounter, reach, satisfy",
        "What each rank meets on it.",
        "Ranks meet at a store.",
    ),
    (r"\bgrounds?\b(?! truth)", "ground|grounds", "context, common part", "The ground of all verbs.", "In the background."),
    (r"\bsurroundings\b", "surroundings", "context", "The surroundings of a unit.", "Around a unit."),
    (r"\bstrangers?\b", "stranger|strangers", "foreign, unknown", "A stranger's file.", "A strange file."),
    (r"\b[Ww]hoever\b", "whoever", "the caller, a rank, who", "Whoever ends it.", "Who ends it."),
    (r"\bbeside\b", "beside", "next to, with, in addition to", "A pass beside a sum.", "Besides, a pass."),
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


def sources():
    """Name and text of every C++ and Python source except this one."""
    for folder in SOURCE_FOLDERS:
        for file in sorted((ROOT / folder).rglob("*")):
            if not file.is_file() or file.suffix not in (".cpp", ".hpp", ".py", "") or file == pathlib.Path(__file__).resolve():
                continue
            text = file.read_text(encoding="utf-8", errors="replace")
            if file.suffix or text.startswith("#!/usr/bin/env python3"):
                yield file.relative_to(ROOT).as_posix(), text


def comments_of(name, text):
    """(line, comment) of a source; docstrings are comments. The rest of the text follows as (0, code)."""
    if name.endswith((".cpp", ".hpp")):
        token = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])*\'', re.S)
        for match in token.finditer(text):
            if match.group().startswith("/"):
                first = text.count("\n", 0, match.start()) + 1
                yield from ((first + i, line) for i, line in enumerate(match.group().splitlines()))
        yield 0, token.sub(" ", text)
        return
    code = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
        elif token.type == tokenize.NAME:
            code.append(token.string)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (words := ast.get_docstring(node, clean=False)):
            yield from ((node.body[0].lineno + i, line) for i, line in enumerate(words.splitlines()))
    yield 0, " ".join(code)


def dialect_of(name, text):
    for line, comment in comments_of(name, text):
        for pattern, _, remedy, _, _ in DIALECT if line else ():
            for match in re.finditer(pattern, comment):
                yield f"{name}:{line}: '{match.group()}' in a comment: {remedy}"


def count():
    """How often each word of DIALECT stands in comments and in identifiers (single_words and SingleWords)."""
    found = collections.Counter()
    for name, text in sources():
        for line, words in comments_of(name, text):
            if line:
                found.update((row, "comments") for row, rule in enumerate(DIALECT) for _ in re.finditer(rule[0], words))
                continue
            for identifier in re.findall(r"[A-Za-z_]\w*", words):
                parts = {part.lower() for part in re.findall(r"[A-Z]?[a-z]+", identifier)}
                found.update((row, "identifiers") for row, rule in enumerate(DIALECT) if parts & set(rule[1].split("|")))
    for row, rule in enumerate(DIALECT):
        print(f"{rule[1]:24} comments {found[row, 'comments']:5}   identifiers {found[row, 'identifiers']:5}   {rule[2]}")


def main():
    if "--count" in sys.argv:
        count()
        return 0
    faults, documents = [], list(pages())
    for pattern, broken, right in [(rule[0], rule[2], rule[3]) for rule in HABITS] + [
        (rule[0], rule[3], rule[4]) for rule in DIALECT
    ]:
        if not re.search(pattern, broken) or re.search(pattern, right):
            faults.append(f"check_prose.py: the rule '{pattern}' does not distinguish '{broken}' from '{right}'")
    for name, text in documents:
        faults += faults_of(name, text)
    for name, text in sources():
        faults += dialect_of(name, text)
    print(
        "\n".join(faults)
        or f"{len(documents)} documents and cells and all comments in plain prose, no line over {WIDTH} characters"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
