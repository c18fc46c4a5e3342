#!/usr/bin/env python3
"""Certificates of orders of every kind are counted again by tools/check-certificate, and changed ones are found out.

`check_certificates.py PROGRAM`"""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
ORDERS = [  # behind " at ": what stands behind the ratio
    "1f1b",
    "interleaved-1f1b,stages_per_rank=4",
    "zb-v",
    "hanayo",
    "chimera",
    "dualpipe",
    "seq-1f1b",
    "slimpipe,sequence_splits=8,exchange=off",
    "1f1b,recompute=full",
    "gis-h,offload=full",
    "auto-memory,memory=3,ways=both",
    "auto-memory,base=zb-auto,memory=2",
    "1f1b,vocabulary=stages at :head=0.3",
    "v-half,vocabulary=stages,vocabulary_barriers=2 at :head=0.7",
    "interleaved-1f1b at :head=0.3:copy=3",
    "pipedream-2bw",
    "zb-h1,post_validation=true",
    "roundpipe",
    "roundpipe at :head=0.3:lengths=3/1",
    "dualpipe at :lengths=3/1/1/2",
    "seq-1f1b at :lengths=3/1/1/2",
    "zb-v-auto at :lengths=3/1/1/2",
    str(ROOT / "scenarios/schedules/wave-p4-m8-8k.csv"),
]
RATIO = "8:9.6:7"  # no sum of these is exact in binary


def certificate(program, order, file):
    order, _, more = order.partition(" at ")
    options = f"--alone --clusters none --cost-ratios {RATIO}{more} --certificate {file} --reference none".split()
    subprocess.run([program, "arena", order, *options, "--by", "a test"], check=True, capture_output=True, text=True)
    return json.loads(file.read_text())


def checked(file):
    done = subprocess.run([ROOT / "tools/check-certificate", file], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def changed(document):
    """Documents that claim something else than their rows hold, or whose rows are no order."""
    yield "step", {**document, "makespan": document["makespan"] * 0.999}
    yield "memory", {**document, "held": document["held"] - 1}
    if "window" in document:
        rows = document["rows"]
        update = rows[0].index("OPT")
        yield "an update moves", {
            **document,
            "rows": [rows[0][: update - 1] + ["OPT", rows[0][update - 1]] + rows[0][update + 1 :], *rows[1:]],
        }
    rows = document["rows"]
    yield "a cell is missing", {**document, "rows": [rows[0][:-1], *rows[1:]]}
    yield "a cell is there twice", {**document, "rows": [[*rows[0], rows[0][0]], *rows[1:]]}
    yield "a rank runs its row backwards", {**document, "rows": [rows[0][::-1], *rows[1:]]}
    yield "rows of two ranks are exchanged", {**document, "rows": [rows[1], rows[0], *rows[2:]]}


def main(program):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "order.json"
        for order in ORDERS:
            document = certificate(program, order, file)
            code, said = checked(file)
            assert code == 0, f"{order}: {said}"
            for what, other in changed(document):
                file.write_text(json.dumps(other))
                code, said = checked(file)
                assert code != 0 and "Traceback" not in said, f"{order}: {what} was not found: {said}"
    print(f"{len(ORDERS)} certificates counted again, and every change of each found out")


if __name__ == "__main__":
    main(sys.argv[1])
