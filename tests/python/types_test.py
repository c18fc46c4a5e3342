"""The package is typed: mypy reads it, and reports programs that use it wrongly."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PACKAGE = pathlib.Path(os.environ["PYTHONPATH"].split(os.pathsep)[0]) / "panpipe"
GOOD = """
from collections.abc import Iterator
import panpipe
from panpipe.actions import Action, F
step: panpipe.Prediction = panpipe.estimate("a.yaml", set={"batch.micro": 2})
time: float = step.step_time_s
rows: int = len(step.timeline)
order: panpipe.Schedule = panpipe.schedule("1f1b", ranks=4, microbatches=8, stages_per_rank=2)
@panpipe.schedule
def mine(rank: int, microbatches: int) -> Iterator[Action]:
    yield F(0)
@panpipe.schedule(stages_per_rank=2, placement="wave", name="v")
def other(rank: int) -> Iterator[Action]:
    yield F(0, stage=1)
families: list[panpipe.OwnFamily] = [mine, other]
made: panpipe.Schedule = mine(ranks=4, microbatches=8, group=2)
step = panpipe.estimate("a.yaml", set={"schedule": mine})
judged: panpipe.Arena = panpipe.arena(mine, made, "1f1b", cost_ratios=["even", (1, 2, 1)])
same: bool | None = panpipe.run("a.yaml", set={"schedule": made}).gradients_equal
faults: list[panpipe.Diagnostic] = panpipe.InputError("x").diagnostics
"""
BAD = """
import panpipe
panpipe.estimate(3)
panpipe.schedule("1f1b", ranks="4")
panpipe.estimate("a.yaml").step_time
panpipe.arena(3)
"""


class Types(unittest.TestCase):
    def mypy(self, *words):
        environment = dict(os.environ, MYPYPATH=str(PACKAGE.parent), PYTHONPATH="")
        return subprocess.run(
            [sys.executable, "-m", "mypy", "--no-incremental", "--cache-dir", os.devnull, *words],
            capture_output=True,
            text=True,
            env=environment,
        )

    def setUp(self):
        try:
            import mypy  # noqa: F401
        except ImportError:
            self.skipTest("mypy is not installed for this Python")

    def test_programs_that_use_it(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("good", GOOD), ("bad", BAD)):
                (pathlib.Path(folder) / f"{name}.py").write_text(text)
            good = self.mypy(f"{folder}/good.py")
            self.assertEqual(good.returncode, 0, good.stdout + good.stderr)
            bad = self.mypy(f"{folder}/bad.py").stdout
            self.assertIn("Found 4 errors", bad)

    def test_every_part_has_a_stub(self):
        stub = (PACKAGE / "_core.pyi").read_text()
        for name in (
            "class Table",
            "class PredictedStep",
            "class JudgedSchedule",
            "def estimate",
            "def arena",
            "def sweep_cell",
            "def fit",
        ):
            self.assertIn(name, stub)
        self.assertTrue((PACKAGE / "py.typed").exists())


if __name__ == "__main__":
    unittest.main()
