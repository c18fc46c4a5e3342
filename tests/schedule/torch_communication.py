#!/usr/bin/env python3
"""The communication that panpipe writes into orders, against PyTorch's own functions on the same orders: cell by cell.

    torch_communication.py BIN        (77 = skipped: no Python with PyTorch in .venv)

PyTorch reshards stages that leave at one place in the order of a Python set; ours are ascending, so such runs are compared sorted.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PYTHON = SOURCE / ".venv/bin/python"
ORDERS = [
    ("gpipe", 4, 8),
    ("1f1b", 4, 8),
    ("1f1b", 3, 7),
    ("interleaved-1f1b", 4, 8),
    ("looped-bfs", 2, 4),
    ("interleaved-zero-bubble", 4, 8),
    ("zb-h1", 4, 9),
    ("zb-h2", 4, 12),
    ("zb-v", 4, 12),
    ("dualpipe-v", 4, 10),
    ("1f1b-v", 4, 8),
    ("stp", 2, 8),
    ("stp", 4, 12),
    ("group-interleaved", 4, 8),
]
MANY_STAGES = [("interleaved-1f1b", 2, 4, "5"), ("looped-bfs", 2, 3, "4"), ("interleaved-1f1b", 4, 8, "4")]


def rows(binary, name, ranks, microbatches, *more):
    command = f"{binary}/panpipe schedule {name} --ranks {ranks} --microbatches {microbatches} --torch"
    done = subprocess.run([*command.split(), *more], check=True, capture_output=True, text=True)
    return [line.split(",") for line in done.stdout.splitlines()]


def sorted_reshards(cells):
    result, run = [], []
    for cell in cells + [None]:
        if cell is not None and cell.endswith("RESHARD"):
            run.append(cell)
            continue
        result += sorted(run)
        run = []
        if cell is not None:
            result.append(cell)
    return result


def text(action):
    return str(action).replace(" ", "")


def compare(binary):
    from torch.distributed.pipelining import schedules as torch_schedules

    compared = 0
    for name, ranks, microbatches, *stages in ORDERS + MANY_STAGES:
        options = ["--option", "stages_per_rank=" + stages[0]] if stages else []
        passes = rows(binary, name, ranks, microbatches, *options)
        actions = {r: [torch_schedules._Action.from_str(cell) for cell in row] for r, row in enumerate(passes)}
        home = {}
        for rank, row in actions.items():
            for action in row:
                for leaf in action.sub_actions or (action,):
                    home[leaf.stage_index] = rank
        for lower in ("send-recv", "unshard", "unshard,send-recv"):
            theirs = {r: list(row) for r, row in actions.items()}
            if "unshard" in lower:
                theirs = {
                    r: torch_schedules._add_reduce_grad(torch_schedules._add_unshard_reshard(row), microbatches)
                    for r, row in theirs.items()
                }
            if "send-recv" in lower:
                theirs = torch_schedules._add_send_recv(theirs, home.__getitem__, len(home))
            ours = rows(binary, name, ranks, microbatches, *options, "--lower", lower)
            for rank in range(ranks):
                wanted, got = sorted_reshards([text(a) for a in theirs[rank]]), sorted_reshards(ours[rank])
                if wanted != got:
                    place = next((i for i, (a, b) in enumerate(zip(wanted, got)) if a != b), min(len(wanted), len(got)))
                    print(
                        f"{name} p={ranks} m={microbatches} --lower {lower}: rank {rank} differs at cell {place}: "
                        f"PyTorch {wanted[place:place + 4]}, ours {got[place:place + 4]}"
                    )
                    return 1
                compared += len(got)
    print(f"{len(ORDERS) + len(MANY_STAGES)} orders, {compared} cells as PyTorch writes them")
    return 0


def main():
    if len(sys.argv) > 2:
        return compare(sys.argv[1])
    if not PYTHON.exists():
        print("skipped: no .venv with PyTorch")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/compiler"  # of PyTorch, else in the temporary folder
        if subprocess.run([PYTHON, "-c", "import torch.distributed.pipelining"], capture_output=True).returncode != 0:
            print("skipped: .venv has no torch.distributed.pipelining")
            return 77
        return subprocess.run([PYTHON, "-W", "ignore", __file__, sys.argv[1], "compare"]).returncode


if __name__ == "__main__":
    sys.exit(main())
