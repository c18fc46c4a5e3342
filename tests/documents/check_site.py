#!/usr/bin/env python3
"""The documents build as a site without a warning, and its pages ask no other machine for anything.

    check_site.py [--built]     --built: the site of build/site as it is
Exit code 77 (skipped) where MkDocs Material is not installed: tools/site installs it."""

import html.parser
import re
import subprocess
import sys

from pages import ROOT

SITE = ROOT / "build/site"
# An attribute whose address a browser fetches by itself.
FETCHED = {
    "link": "href",
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "object": "data",
    "video": "src",
    "audio": "src",
}
# Links that no browser follows by itself.
NOT_FETCHED = {"canonical", "prev", "next", "alternate", "edit"}
FAR = re.compile(r"(?:[a-z]+:)?//")


class Page(html.parser.HTMLParser):
    def __init__(self, file):
        super().__init__()
        self.file, self.faults, self.links = file, [], []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        address = values.get(FETCHED.get(tag)) or ""
        if FAR.match(address) and values.get("rel") not in NOT_FETCHED:
            self.faults.append(f"{self.file.relative_to(SITE)}: <{tag}> fetches {address}")
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])


def problems():
    """The pages, and what is wrong with them."""
    pages = {file: Page(file) for file in SITE.rglob("*.html")}
    faults = [fault for page in pages.values() for fault in page.faults]
    for file in [*SITE.rglob("*.css"), *(ROOT / "docs/site").glob("*.js")]:
        for address in re.findall(r"@import\s+[\"']([^\"']+)|url\([\"']?([^)\"']+)", file.read_text(encoding="utf-8")):
            if FAR.match("".join(address)):
                faults.append(f"{file.relative_to(ROOT)}: fetches {''.join(address)}")
    for file, page in pages.items():
        for link in page.links:
            name = link.partition("#")[0]
            if name and not re.match(r"[a-z]+:", link) and file.name != "404.html" and not (file.parent / name).exists():
                faults.append(f"{file.relative_to(SITE)}: dead link {link}")
    return pages, faults


def main(arguments):
    if "--built" not in arguments:
        if not (ROOT / "build/site-venv/bin/mkdocs").exists():
            print("skipped: MkDocs Material is not installed here; tools/site installs it into build/site-venv")
            return 77
        built = subprocess.run([ROOT / "tools/site"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if built.returncode:
            print(built.stdout)
            return 1
    pages, faults = problems()
    print("\n".join(faults))
    print(f"{len(pages)} pages, {sum(len(page.links) for page in pages.values())} links, {len(faults)} faults")
    return 1 if faults or len(pages) < 50 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
