#!/usr/bin/env python3
"""tools/export_model.py as a user runs it: own modules become archives that panpipe reads, cuts and runs; mistakes get one line.

export_model_test.py BIN        (77 = skipped: no Python with PyTorch in .venv)
"""

import contextlib
import importlib.util
import io
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import threading

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PYTHON = SOURCE / ".venv/bin/python"

MODELS = """
import torch
from torch import nn

def classifier(width=8):
    return nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 3))

class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(11, 8), nn.Linear(8, 4)
    def forward(self, ids):
        return self.head(self.words(ids))

class OwnLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 1)
    def forward(self, x, y):
        return ((self.second(torch.relu(self.first(x))) - y) ** 2).mean()
    def example_inputs(self, micro):
        return {"x": torch.randn(micro, 4), "y": torch.randn(micro, 1)}

class TupleOfInputs(OwnLoss):
    def example_inputs(self, micro):
        return torch.randn(micro, 4), torch.randn(micro, 1)

class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
    def forward(self, x):
        return self.layer(x) if x.sum() > 0 else x

def number():
    return 3

class Unsaved(nn.Module):
    # Captured, but with an operator that no archive can hold.
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
    def forward(self, x):
        return torch.vmap(lambda row: row * 2)(self.layer(x))
"""


class Failed(Exception):
    pass


def call(folder, line):
    done = subprocess.run(shlex.split(line), cwd=folder, capture_output=True, text=True, timeout=240)
    if done.returncode:
        raise Failed(f"{line}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def expect(found, wanted, what):
    if found != wanted:
        raise Failed(f"{what}:\n  found    {found}\n  expected {wanted}")


def export(folder, line, code=0):
    """As from the command line, in this process: PyTorch takes seconds to load."""
    spec = importlib.util.spec_from_file_location("export_model", SOURCE / "tools/export_model.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    out, error, argv = io.StringIO(), io.StringIO(), sys.argv
    os.chdir(folder)
    try:
        sys.argv = ["export_model.py", *shlex.split(line)]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            found = tool.main()
    finally:
        sys.argv = argv
        os.chdir("/")
    if found != code:
        raise Failed(f"{line}: exit {found}, not {code}\n{out.getvalue()}\n{error.getvalue()}")
    return subprocess.CompletedProcess(line, found, out.getvalue(), error.getvalue())


def input_names(folder, archive):
    """Of the program's inputs, as files with training data name them."""
    import torch

    return list(torch.export.load(folder / archive).graph_signature.user_inputs)


def train(binary, folder, archive, micro):
    """Two ranks, cut by panpipe itself; the same loss as one rank, and it falls."""
    (folder / "job.yaml").write_text(
        f"panpipe: 1\ncluster: {{devices: 2, memory: 8 GiB, link: {{latency: 1 us, bandwidth: 10 GB/s}}}}\nworkload: {{pt2: {archive}}}\n"
        f"batch: {{micro: {micro}, microbatches: 4}}\noptimizer: {{name: sgd, learning_rate: 0.1}}\n"
    )
    losses = []
    for ranks in (1, 2):
        on = f"--set parallel.pipeline={ranks} --set cluster.devices={ranks}"
        done = call(folder, f"{binary}/panpipe run job.yaml --steps 3 --transport local --json {on}")
        losses.append(json.loads(done.stdout)["losses"])
    for one, two in zip(*losses):
        if abs(one - two) > 1e-5 * abs(one):
            raise Failed(f"{archive}: losses {losses[0]} on one rank, {losses[1]} on two")
    if len(losses[0]) != 3:
        raise Failed(f"{archive}: {len(losses[0])} losses for 3 steps")


def refused(folder, message, line):
    done = export(folder, f"{line} -o x.pt2", code=2)
    expect(done.stderr.strip().splitlines()[-1], f"export_model.py: error: {message}", line)
    if (folder / "x.pt2").exists():
        raise Failed("a refused model left a file")


def fails(folder, line, why):
    error = export(folder, line, code=2).stderr
    if not error.strip().splitlines()[-1].startswith(f"export_model.py: error: torch.export {why}"):
        raise Failed(error)


def outputs(folder):
    """-o makes folders, leaves links and FIFOs what they are, and writes nothing else."""
    own = "models:OwnLoss --loss own --micro 3 -o"
    place = folder / "outputs"
    place.mkdir()
    (place / "link.pt2").symlink_to("deep/er/real.pt2")
    export(folder, f"{own} {place}/link.pt2")
    os.mkfifo(place / "fifo.pt2")
    taken = []
    reader = threading.Thread(target=lambda: taken.append((place / "fifo.pt2").read_bytes()))
    reader.start()
    export(folder, f"{own} {place}/fifo.pt2")
    reader.join()
    if not (place / "link.pt2").is_symlink() or not (place / "fifo.pt2").is_fifo():
        raise Failed("an output replaced a link or a FIFO")
    expect(
        sorted(str(path.relative_to(place)) for path in place.rglob("*")),
        ["deep", "deep/er", "deep/er/real.pt2", "fifo.pt2", "link.pt2"],
        "files",
    )
    for archive in (taken[0], (place / "deep/er/real.pt2").read_bytes()):
        expect(archive[:4], b"PK\x03\x04", "the beginning of an archive")
    (place / "folder.pt2").mkdir()
    done = export(folder, f"{own} {place}/folder.pt2", code=2)
    expect(
        done.stderr,
        f"export_model.py: error: cannot write {place}/folder.pt2: it is a folder, not a file; choose another file with -o\n",
        "-o FOLDER",
    )
    (place / "file").write_text("in the way")
    done = export(folder, f"{own} {place}/file/x.pt2", code=3)
    expect(
        done.stderr.splitlines()[-1],
        f"export_model.py: this machine cannot: write {place}/file/x.pt2: File exists; choose another file with -o",
        "-o below a file",
    )


def check_transformers(folder):
    """Releases that do not work, and a package that is broken inside, are told apart from one that is not there."""

    def with_package(text, message):
        (folder / "transformers.py").write_text(text)
        sys.path.insert(0, str(folder))
        sys.modules.pop("transformers", None)
        importlib.invalidate_caches()
        try:
            refused(folder, message, "hf:gpt2")
        finally:
            sys.path.remove(str(folder))
            sys.modules.pop("transformers", None)
            (folder / "transformers.py").unlink()

    with_package("__version__ = '4.57.1'", "hf: needs transformers 5 or later, here is 4.57.1: pip install 'transformers>=5'")
    with_package(
        "import no_such_package",
        "the package transformers is here, but cannot be imported: ModuleNotFoundError: No module named 'no_such_package'",
    )
    with_package(
        "from sys import no_such_name",
        "the package transformers is here, but cannot be imported: ImportError: cannot import name 'no_such_name' from 'sys' (unknown location)",
    )
    importlib.invalidate_caches()
    if importlib.util.find_spec("transformers") is None:
        refused(folder, "hf: needs the package transformers: pip install 'transformers>=5'", "hf:gpt2")


def main():
    binary = pathlib.Path(sys.argv[1]).resolve()
    if pathlib.Path(sys.prefix).resolve() != PYTHON.parents[1].resolve():
        if not PYTHON.exists() or subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode:
            print("skipped: no Python with PyTorch in .venv")
            return 77
        return subprocess.run([PYTHON, __file__, binary]).returncode
    with tempfile.TemporaryDirectory(prefix="panpipe-export-") as name:
        folder = pathlib.Path(name)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "compiler")  # of PyTorch, else in the temporary folder
        (folder / "models.py").write_text(MODELS)
        own = "models:classifier --argument width=16 --input 6 --micro 4 -o classifier.pt2"
        done = call(folder, f"{PYTHON} {SOURCE}/tools/export_model.py {own}")
        # 6*16+16 + 16*16+16 + 16*3+3 = 435 parameters
        if not done.stdout.startswith("classifier.pt2: 435 parameters, "):
            raise Failed(f"parameters of the classifier: {done.stdout}")
        export(folder, "models:Tagger --input 5 --tokens 11 --micro 2 -o tagger.pt2")
        export(folder, "models:OwnLoss --loss own --micro 3 -o own.pt2")
        export(folder, "models:classifier --input 6 --loss mse --micro 4 -o mse.pt2")
        # The forward's own names: nn.Sequential's is `input`.
        expect(
            [input_names(folder, archive) for archive in ("classifier.pt2", "tagger.pt2", "own.pt2")],
            [["input", "labels"], ["ids", "labels"], ["x", "y"]],
            "names of inputs",
        )
        if (binary / "panpipe-exec").exists():
            for archive, micro in (("classifier.pt2", 4), ("tagger.pt2", 2), ("own.pt2", 3), ("mse.pt2", 4)):
                train(binary, folder, archive, micro)
        outputs(folder)
        refused(
            folder,
            "example_inputs(3) returns a tuple, not a dictionary of inputs by the names of forward's arguments: return {'x': ..., 'y': ...}",
            "models:TupleOfInputs --loss own --micro 3",
        )
        refused(folder, "'models' has no 'clasifier'", "models:clasifier --input 6")
        refused(folder, "cannot import 'nowhere': No module named 'nowhere'", "nowhere:model --input 6")
        refused(folder, "'models:number' gives a int, not an nn.Module", "models:number --input 6")
        refused(folder, "give the shape of one sample with --input, for example --input 3,224,224", "models:classifier")
        refused(folder, "'classifier' is neither hf:NAME nor MODULE:CALLABLE", "classifier --input 6")
        refused(folder, "--argument wants NAME=VALUE, not 'width'", "models:classifier --argument width --input 6")
        refused(folder, "--micro must be at least 1", "models:classifier --input 6 --micro 0")
        refused(
            folder,
            "--loss own needs a function example_inputs(micro) beside the model, or as its method, that returns a dictionary of inputs",
            "models:classifier --loss own",
        )
        fails(folder, "models:Branches --input 4 --loss mse -o x.pt2", "cannot capture this model: ")
        done = export(folder, "models:classifier --input 6 -o model.bin", code=2)
        expect(done.stderr.strip(), "export_model.py: error: the archive's name must end in .pt2", "-o model.bin")
        # A model that is captured and cannot be saved leaves nothing, and what stood there stays.
        (folder / "kept.pt2").write_text("old")
        fails(folder, "models:Unsaved --input 4 --loss mse -o kept.pt2", "cannot save this model: SerializeError: ")
        expect((folder / "kept.pt2").read_text(), "old", "the file that stood there")
        expect([path.name for path in folder.iterdir() if path.name.startswith("kept.")], ["kept.pt2"], "what is left beside it")
        check_transformers(folder)
    print("export_model.py: archives and messages as documented")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failure:
        print(failure)
        sys.exit(1)
