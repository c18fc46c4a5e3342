"""Hook of MkDocs (mkdocs.yml): what the site has beyond the files in docs/, and what differs between Markdown in the tree and there.

* README.md is the first page; CONTRIBUTING.md, CHANGELOG.md and every other file that a page links to come along as pages of their own,
  so that no link leads out of the site: the project has no public address that one could point at.
* Notebooks are pages with their outputs, pictures as files next to them, and the notebook itself to download.
* `reference/verbs.md` is the help that the program prints.
* `<!-- page: ADDRESS -->` is a link into the page that `make web` made (docs/page.md), where there is one; on the first page it is
  that page itself.
* Lists as the tree's pages write them are written as Python-Markdown reads them. Comments that only tests read are left out.

PANPIPE is the program, build/release/bin/panpipe if it is not set.
"""

import html
import json
import os
import pathlib
import posixpath
import re
import subprocess
import sys

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import notebook_pages  # noqa: E402

NAMED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "notebooks/README.md": "notebooks/index.md",
}
LANGUAGES = {".hpp": "cpp", ".cpp": "cpp", ".py": "python", ".yaml": "yaml", ".toml": "toml", ".csv": "text"}
LINK = re.compile(r"(!?\[(?:[^\]\[]|\[[^\]]*\])*\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^\s*(```|~~~)")
WEB = ROOT / "build/web/panpipe.html"
ITEM = re.compile(r"^( *)([*+-]|\d+\.) +")

origins = {}  # page of the site -> file of the tree


def page_of(path):
    """The page that shows a file or folder of the tree."""
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        return (name[len("docs/") :] if name.startswith("docs/") else f"source/{name}") + "/index.md"
    if name.startswith("docs/"):
        return name[len("docs/") :]
    if path.suffix == ".ipynb":
        return f"notebooks/{path.stem}.md"
    return NAMED.get(name) or f"source/{name}" + ("" if path.suffix == ".md" else ".md")


def outside_fences(text):
    """(line, whether it is code) of each line."""
    inside = False
    for line in text.splitlines():
        fence = FENCE.match(line) is not None
        yield line, inside or fence
        inside ^= fence


def linked(file):
    """Files and folders of the tree that a Markdown file or a notebook links to."""
    text = notebook_pages.prose(file) if file.suffix == ".ipynb" else file.read_text(encoding="utf-8")
    for line, code in outside_fences(text):
        for _, link, _ in [] if code else LINK.findall(line):
            name = link.partition("#")[0]
            target = (file.parent / name).resolve()
            if name and not re.match(r"[a-z]+:", link) and target.is_relative_to(ROOT) and target.exists():
                yield target


def title_of(file):
    return next((line[2:] for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("# ")), file.name)


def text_of(path):
    """The Markdown of a page that is no file of docs/; links as seen from `path`."""
    name = path.relative_to(ROOT).as_posix()
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    unsearched = "---\nsearch: {exclude: true}\n---\n"
    if path.is_dir():
        entries = (
            sorted(path.glob("*.md")) if name.startswith("docs/") else sorted(each for each in path.iterdir() if each.is_file())
        )
        head = {
            "docs/models": "# Models\n\nEach page states equations, sources, limits, and how they were validated.",
            "docs/decisions": "# Decisions\n\nEach page records a decision and its reasons at the time.",
        }.get(name)
        rows = [f"* [{title_of(each) if each.suffix == '.md' else f'`{each.name}`'}]({each.name})" for each in entries]
        return (head or f"{unsearched}# `{name}/`") + "\n\n" + "\n".join(rows) + "\n"
    body = path.read_text(encoding="utf-8")
    return f"{unsearched}# `{name}`\n\nThe file at the time when this site was built.\n\n````` {LANGUAGES.get(path.suffix, 'text')}\n{body}\n`````\n"


def add_notebook(files, config, path):
    """The page of a notebook, its pictures and the file itself."""
    page = notebook_pages.NotebookPage(path, ROOT / "build/notebooks" / path.name)
    files.append(File.generated(config, page_of(path), content=page.text))
    for name, content in {path.name: path.read_bytes(), **page.pictures}.items():
        files.append(File.generated(config, f"notebooks/{name}", content=content))


# --- the help that the program prints ---


def answer(*arguments):
    program = os.environ.get("PANPIPE", str(ROOT / "build/release/bin/panpipe"))
    try:
        return subprocess.run([program, *arguments], check=True, capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise PluginError(
            f"the reference pages need the program, and {program} {' '.join(arguments)} failed: {error}; 'make build PROGRAMS=1' makes it"
        ) from error


def cell(text):
    return html.escape(text, quote=False).replace("|", "\\|")


def rows_of(block):
    """(words, meaning) of a part of --help; a long word stands on a line of its own, and meanings go on below themselves."""
    rows = []
    for line in block.splitlines():
        begin = re.match(r"  (\S.*?)(?:  +(\S.*))?$", line)
        if begin and not line.startswith("   "):
            rows.append([begin.group(1), begin.group(2) or ""])
        elif line.strip() and rows:
            rows[-1][1] = f"{rows[-1][1]} {line.strip()}".strip()
    return rows


def verb_text(words, depth):
    """The --help of a verb as Markdown, and of the verbs behind it."""
    said = answer(*words, "--help")
    examples = re.match(r"Examples:\n(.*?)\n\n", said, re.S)
    summary = re.search(r"(.*)\nUsage: (.*)", said)
    out = [
        f"{'#' * depth} {' '.join(words)}",
        "",
        html.escape(summary.group(1), quote=False) + ".",
        "",
        "```text",
        summary.group(2),
        "```",
        "",
    ]
    if examples:
        out += ["```sh", *(line.strip() for line in examples.group(1).splitlines()), "```", ""]
    parts = dict(re.findall(r"^(Positionals|Options|Subcommands):\n((?:  .*\n?)+)", said, re.M))
    for part, head in (("Positionals", "argument"), ("Options", "option")):
        rows = [row for row in rows_of(parts.get(part, "")) if not row[0].startswith("-h,")]
        if rows:
            out += [
                f"| {head} | meaning |",
                "|---|---|",
                *(f"| `{word.replace('|', chr(92) + '|')}` | {cell(meaning)} |" for word, meaning in rows),
                "",
            ]
    for word, _ in rows_of(parts.get("Subcommands", "")):
        out += verb_text([*words, word.split(",")[0]], depth + 1)  # without aliases
    return out


def verbs_page():
    verbs = [word for word, _ in rows_of(re.search(r"Subcommands:\n(.*)", answer("--help"), re.S).group(1))]
    out = [
        "# Every verb",
        "",
        f"The `--help` of all {len(verbs)} verbs. [Command line](../command-line.md) explains their common options and their answers.",
        "",
    ]
    for verb in verbs:
        out += verb_text([verb], 2)
    return "\n".join(out)


# --- the Markdown of the tree, as Python-Markdown reads it ---


def plain_lists(lines):
    """A list needs an empty line above it, and its inner lists an indent of four."""
    before = ""
    for line, code in lines:
        item = None if code else ITEM.match(line)
        if item and item.group(1):
            line = " " * (4 * ((len(item.group(1)) + 1) // 2)) + line.lstrip()
        elif item and before.strip() and not ITEM.match(before) and not before.startswith(" "):
            yield ""
        yield line
        before = line


def for_site(text, origin, page):
    """The text of a file of the tree as it stands on a page of the site."""

    def link(match):
        target, mark, anchor = match.group(2).partition("#")
        if re.match(r"[a-z]+:", target) or not target:
            return match.group()
        path = (origin.parent / target).resolve()
        if not path.is_relative_to(ROOT) or not path.exists():
            return match.group()  # MkDocs reports it
        return match.group(1) + posixpath.relpath(page_of(path), posixpath.dirname(page) or ".") + mark + anchor + match.group(3)

    def into_page(match):
        if not WEB.exists():
            return ""
        place = posixpath.relpath(WEB.name, posixpath.dirname(page) or ".")
        link = f"[**Open it in the page**]({place}#{match.group(1)})"
        if page != "index.md":
            return link
        return f'<iframe src="{place}" title="Panpipe in the browser" class="panpipe-page"></iframe>\n\n{link}'

    def prose(line):
        line = re.sub(r"<!-- page: ?(\S*) ?-->", into_page, line)
        line = LINK.sub(link, re.sub(r"<!--.*?-->", "", line))
        return re.sub(r"`[^`]*`", lambda span: span.group().replace("\\|", "|"), line) if line.startswith("|") else line

    return "\n".join(plain_lists((line if code else prose(line), code) for line, code in outside_fences(text))) + "\n"


# --- the hook ---


def on_config(config):
    named = set(re.findall(r"[\w/.-]+\.md", json.dumps(config.nav)))
    notebooks = next(
        item["Notebooks"] for item in next(item["Tour"] for item in config.nav if "Tour" in item) if "Notebooks" in item
    )
    notebooks += [page_of(path) for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]
    for section, folder in (("How-to", "."), ("Models", "models"), ("Design", "decisions")):
        pages = next(item[section] for item in config.nav if section in item)
        if folder == "decisions":
            pages = next(item["Decisions"] for item in pages if "Decisions" in item)
        pages += [
            name
            for name in (posixpath.normpath(f"{folder}/{file.name}") for file in sorted((ROOT / "docs" / folder).glob("*.md")))
            if name not in named
        ]


def on_files(files, config):
    origins.clear()
    queue, seen = [ROOT / name for name in NAMED] + sorted((ROOT / "docs").rglob("*.md")), set()
    queue += [ROOT / "docs/models", ROOT / "docs/decisions", *(ROOT / "notebooks").glob("*.ipynb")]
    while queue:
        path = queue.pop()
        if path in seen:
            continue
        seen.add(path)
        page = page_of(path)
        if path.suffix in (".md", ".ipynb"):
            queue += linked(path)
        elif path.is_dir() and not path.is_relative_to(ROOT / "docs"):
            queue += [each for each in path.iterdir() if each.is_file()]
        if path.suffix == ".ipynb":
            add_notebook(files, config, path)
        elif files.get_file_from_path(page) is None:
            files.append(File.generated(config, page, content=text_of(path)))
        if page.endswith(".md"):
            origins[page] = path / "index.md" if path.is_dir() else path
    files.append(File.generated(config, "reference/verbs.md", content=verbs_page()))
    if WEB.exists():
        files.append(File.generated(config, WEB.name, content=WEB.read_bytes()))
    return files


def on_page_markdown(markdown, page, config, files):
    origin = origins.get(page.file.src_uri)
    return for_site(markdown, origin, page.file.src_uri) if origin else markdown
