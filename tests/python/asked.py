"""What the tests of the package share: the same question asked of the command, files, and refusals."""

import json
import os
import pathlib
import shlex
import subprocess
import tempfile
import unittest

import panpipe
from panpipe.actions import B, F

PROGRAM = os.path.join(os.environ["PANPIPE_BIN"], "panpipe")
RUNS = pathlib.Path(__file__).resolve().parents[2] / "validation" / "published" / "runs.csv"
SMALL, LARGE, LLAMA = "examples/gpt2-large-rtx3090x8.yaml", "examples/gpt3-175b-a100x64.yaml", "examples/llama-3-8b-h100.yaml"
DICT = {
    "panpipe": 1,
    "cluster": "clusters/rtx3090x8.yaml",
    "workload": {"model": "gpt2-large"},
    "batch": {"micro": 2, "microbatches": 8},
}


def text(line):
    """What `panpipe LINE` prints."""
    done = subprocess.run([PROGRAM, *shlex.split(line)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def command(line):
    return json.loads(text(f"{line} --json"))


def refusal(call, *arguments, **named):
    """The InputError of a call that must be refused."""
    try:
        call(*arguments, **named)
    except panpipe.InputError as error:
        return error
    raise AssertionError("nothing was raised")


class Cases(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def written(self, name, content):
        """The path of a file in the test's folder."""
        (self.folder / name).write_text(content)
        return self.folder / name

    def refused(self, cases):
        """Each call is refused with its whole message."""
        for call, message in cases:
            with self.subTest(message):
                self.assertEqual(str(refusal(call)), message)


@panpipe.schedule
def one_f_one_b(rank, ranks, microbatches):
    warmup = min(ranks - 1 - rank, microbatches)
    for m in range(warmup):
        yield F(m)
    for m in range(microbatches):
        if warmup + m < microbatches:
            yield F(warmup + m)
        yield B(m)
