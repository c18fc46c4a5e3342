"""The sessions that documents show: what they print now."""

import doctest
import os
import pathlib
import re
import tempfile
import unittest

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
SESSION = re.compile(r"^```pycon\n(.*?)^```$", re.M | re.S)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Document(unittest.TestCase):
    def test_sessions(self):
        for page, least in (("python.md", 4), ("for-agents.md", 1)):
            with self.subTest(page):
                self.check(DOCS / page, least)

    def check(self, page, least):
        text, names, wrong = page.read_text(encoding="utf-8"), {}, []
        sessions = list(SESSION.finditer(text))
        self.assertGreaterEqual(len(sessions), least)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            for session in sessions:
                line = text[: session.start()].count("\n") + 1
                test = doctest.DocTestParser().get_doctest(session.group(1), names, page.name, str(page), line)
                doctest.DocTestRunner(optionflags=FLAGS).run(test, out=wrong.append, clear_globs=False)
                names = test.globs
            os.chdir("/")
        self.assertEqual("".join(wrong), "")


if __name__ == "__main__":
    unittest.main()
