"""`python -m panpipe`: the command, and the notebooks that the package brings."""

import json
import pathlib
import subprocess
import sys
import unittest

from asked import Cases

NOTEBOOKS = pathlib.Path(__file__).resolve().parents[2] / "notebooks"


def program(*words, folder):
    return subprocess.run([sys.executable, "-m", "panpipe", *words], capture_output=True, text=True, cwd=folder)


class Program(Cases):
    def test_it_is_the_command(self):
        said = program("--version", folder=self.folder)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn((NOTEBOOKS.parent / "VERSION").read_text().strip(), said.stdout)

    def test_notebooks_are_copied(self):
        said = program("notebooks", "new/mine", folder=self.folder)
        self.assertEqual(said.returncode, 0, said.stderr)
        copies = sorted(path.name for path in (self.folder / "new/mine").iterdir())
        self.assertEqual(copies, sorted(path.name for path in NOTEBOOKS.glob("*.ipynb")))
        for name in copies:
            source, copy = (json.loads((folder / name).read_text()) for folder in (NOTEBOOKS, self.folder / "new/mine"))
            for before, after in zip(source["cells"], copy["cells"], strict=True):
                text = "".join(after["source"])
                self.assertNotIn("](../", text)  # would be dead there
                if before["cell_type"] == "code":
                    self.assertEqual(text, "".join(before["source"]))

    def test_nothing_is_written_over(self):
        (self.folder / "01-first-estimate.ipynb").write_text("mine")
        said = program("notebooks", ".", folder=self.folder)
        self.assertEqual(
            (said.returncode, said.stderr), (2, "panpipe: 01-first-estimate.ipynb is there already: name another folder\n")
        )
        self.assertEqual([path.name for path in self.folder.iterdir()], ["01-first-estimate.ipynb"])
        said = program("notebooks", "01-first-estimate.ipynb", folder=self.folder)
        self.assertEqual((said.returncode, said.stderr), (3, "panpipe: cannot write 01-first-estimate.ipynb: File exists\n"))
        said = program("notebooks", "--all", folder=self.folder)
        self.assertEqual((said.returncode, said.stderr), (2, "usage: python -m panpipe notebooks [FOLDER]\n"))


if __name__ == "__main__":
    unittest.main()
