#!/usr/bin/env python3
"""The published numbers that notebooks/03-published-results.ipynb states are those of validation/ and of the planner's tests, and
tests/validation holds predictions to these."""

import ast
import csv
import json
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CELLS = json.loads((ROOT / "notebooks/03-published-results.ipynb").read_text(encoding="utf-8"))["cells"]


def stated(cell, name):
    """The literal that a cell gives to a name."""
    source = next("".join(one["source"]) for one in CELLS if one["id"] == cell)
    return next(
        ast.literal_eval(line.value)
        for line in ast.parse(source).body
        if isinstance(line, ast.Assign) and line.targets[0].id == name
    )


class Figures(unittest.TestCase):
    def test_pfeife(self):
        table = json.loads((ROOT / "validation/pfeife/published.json").read_text())
        columns = [
            "model",
            "devices",
            "microbatch",
            "stages_per_rank",
            "loop_batch",
            "prefetch",
            "estimated_ms",
            "measured_ms",
            "accepted",
        ]
        places = [table["columns"].index(name) for name in columns]
        self.assertEqual(stated("pfeife-table", "pfeife_table"), [tuple(row[place] for place in places) for row in table["rows"]])

    def test_stp(self):
        document = json.loads((ROOT / "validation/stp/published.json").read_text())
        self.assertEqual(stated("stp-table", "stp_models"), document["models"])
        self.assertEqual(stated("stp-table", "stp_schedules"), document["schedules"])
        keys = ("model", "sequence", "micro", "tensor", "pipeline", "activations_gib")
        rows = [
            (*(one[key] for key in keys), {int(count): values for count, values in one["throughput"].items()})
            for one in document["configurations"]
        ]
        self.assertEqual(stated("stp-table", "stp_table"), rows)

    def test_piper(self):
        with open(ROOT / "tests/planner/piper/published.csv") as file:
            rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
        # 1920 microbatches, 8 GiB, 25 GiB/s.
        here = [
            row
            for row in rows
            if (row["input"], row["microbatches"], row["memory"], row["bandwidth"])
            == ("bert32", "1920", "8589934592.0", "26843545600.0")
        ]
        published = {(row["variant"], int(row["devices"])): row["published"] for row in here}
        names = {"all": "full", "no tensor parallelism": "no_tp", "no recompute": "no_recompute", "no data parallelism": "no_dp"}
        for variant, by_devices in stated("piper-published", "piper_published").items():
            for devices, seconds in by_devices.items():
                self.assertEqual(seconds, float(published[names[variant], devices]), (variant, devices))


if __name__ == "__main__":
    sys.exit(unittest.main())
