"""The sessions that docs/python.md shows: what they print now."""

import doctest
import os
import pathlib
import re
import tempfile
import unittest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md"
SESSION = re.compile(r"^```pycon\n(.*?)^```$", re.M | re.S)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Document(unittest.TestCase):
    def test_sessions(self):
        text, names, wrong = PAGE.read_text(encoding="utf-8"), {}, []
        sessions = list(SESSION.finditer(text))
        self.assertGreater(len(sessions), 3)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            for session in sessions:
                line = text[: session.start()].count("\n") + 1
                test = doctest.DocTestParser().get_doctest(session.group(1), names, PAGE.name, str(PAGE), line)
                doctest.DocTestRunner(optionflags=FLAGS).run(test, out=wrong.append, clear_globs=False)
                names = test.globs
            os.chdir("/")
        self.assertEqual("".join(wrong), "")


if __name__ == "__main__":
    unittest.main()
