#!/usr/bin/env python3
"""The program of today reads the files that an earlier version wrote, and says of them what that version said.

    old_files_test.py FOLDER-OF-PROGRAMS [OldFiles.test_plans ...]

With PANPIPE_UPDATE=1 the step times of the plans are recorded anew: only for a change that moves predictions and stands in
CHANGELOG.md under "Changed predictions"."""
import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
FILES = pathlib.Path(__file__).resolve().parent / "0.1.0"
UPDATE = os.environ.get("PANPIPE_UPDATE")
# A prediction may move by rounding only; a loss by what another LibTorch or processor sums in another order.
STEP_TIME, LOSS = 1e-3, 1e-5


class OldFiles(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name) / "files"
        shutil.copytree(FILES, self.folder)

    def panpipe(self, *arguments):
        ran = subprocess.run([BIN / "panpipe", *map(str, arguments)], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, f"panpipe {' '.join(map(str, arguments))}\n{ran.stdout[-500:]}\n{ran.stderr}")
        return ran.stdout

    def document(self, *arguments):
        return json.loads(self.panpipe(*arguments, "--json"))

    def near(self, now, before, share, of):
        self.assertLessEqual(abs(now - before), share * abs(before), f"{of}: {now}, recorded {before}")

    def test_plans(self):
        record = self.folder / "plans/step_times.csv"
        rows = list(csv.DictReader(record.read_text().splitlines()))
        self.assertEqual(sorted(row["plan"] for row in rows), sorted(file.stem for file in (self.folder / "plans").glob("*.yaml")))
        for row in rows:
            with self.subTest(row["plan"]):
                now = self.document("estimate", row["scenario"], "--plan", f"plans/{row['plan']}.yaml")["metrics"]["step_time_s"]
                if UPDATE:
                    row["step_time_s"] = now
                else:
                    self.near(now, float(row["step_time_s"]), STEP_TIME, f"step time of plan {row['plan']}; see the head of this file")
        if UPDATE:
            lines = [",".join(map(str, row.values())) for row in rows]
            (FILES / "plans" / record.name).write_text("\n".join([",".join(rows[0]), *lines]) + "\n")

    # The costs that predictions take from the profile are the numbers of the file.
    def test_profile(self):
        text = (self.folder / "profile.yaml").read_text()
        costs = self.document("check", "gpt.yaml", "--set", "profile=profile.yaml", "--costs")
        units = [unit for device in costs["devices"] for unit in device["units"]]
        self.assertEqual({unit["forward"]["source"] for unit in units}, {"measured"})
        attention = text[text.index("h.0.attention"):]
        stated = attention[attention.index("forward: ") + len("forward: "):].split(" us")[0]
        priced = [unit["forward"]["total_s"] for unit in units if unit["name"] == "h.0.attention"]
        self.near(priced[0], float(stated) * 1e-6, 1e-6, "forward of h.0.attention")

    def test_results(self):
        results = self.folder / "results"
        for name in sorted(os.listdir(results)):
            with self.subTest(name):
                self.assertTrue(self.document("compare", results / name, results / name, "--tolerance", "step_time_s=0%")["ok"])
                page = self.folder / f"{name}.html"
                self.panpipe("report", results / name, "-o", page)
                self.assertIn("<svg", page.read_text())
        # A timeline that was read as an empty one would differ from nothing, so one of today is held against it.
        # The flow solver stands in for SimGrid, which a build may lack; both give one step time.
        for verb, kind in (["estimate"], "estimated"), (["simulate", "--backend", "flow"], "simulated"):
            with self.subTest(kind):
                now = self.folder / f"{kind}.now"
                self.panpipe(*verb, "layers4.yaml", "--plan", f"results/{kind}/plan.yaml", "-o", now)
                limit = f"step_time_s={100 * STEP_TIME}%"
                compared = self.document("compare", results / kind, now, *([] if UPDATE else ["--tolerance", limit]))
                self.assertTrue(compared["ok"])
                old, new = (json.loads((folder / "result.json").read_text())["timeline"] for folder in (results / kind, now))
                self.assertEqual(len(old), len(new))

    def test_checkpoint(self):
        if not (BIN / "panpipe-exec").exists():
            self.skipTest("built without LibTorch: no panpipe-exec")
        self.panpipe("run", "gpt.yaml", "--transport", "local", "--steps", 3, "--resume", "checkpoint/step-000002", "--metrics", "now.jsonl")
        now = [json.loads(line) for line in (self.folder / "now.jsonl").read_text().splitlines()]
        before = [json.loads(line) for line in (self.folder / "losses.jsonl").read_text().splitlines()]
        self.assertEqual([line["step"] for line in now], [3])
        self.near(now[0]["loss"], before[2]["loss"], LOSS, "loss of step 3")
        # The losses of steps 2 and 3 differ by more than is allowed: a checkpoint that was not loaded would show.
        self.assertGreater(abs(before[1]["loss"] - before[2]["loss"]), 100 * LOSS)

    def test_schedules(self):
        files = sorted((self.folder / "schedules").glob("*.csv"))
        self.assertTrue(files)
        for file in files:
            with self.subTest(file.name):
                now = self.document("schedule", file)
                self.assertTrue(now["legal"])
                self.assertEqual([",".join(rank) for rank in now["actions"]], [line.replace('"', "") for line in file.read_text().splitlines() if not line.startswith("#")])
                document = file.with_suffix(".json")
                if document.exists():
                    before = json.loads(document.read_text())
                    for key in before.keys() - {"name"}:
                        self.assertEqual(now[key], before[key], key)

    # The first recorded cell is given another time: a sweep that goes on shows that time, one that starts again does not.
    def test_sweep(self):
        cells, call = self.folder / "sweep/cells.jsonl", json.loads((self.folder / "sweep/grid.json").read_text())
        before = [json.loads(line)["metrics"]["step_time_s"] for line in cells.read_text().splitlines()]
        text = cells.read_text()
        cells.write_text(text.replace(f'"step_time_s":{before[0]!r}', '"step_time_s":0.125', 1))
        self.assertNotEqual(cells.read_text(), text)
        options = [option for axis in call["axes"] for option in ("--over", f"{axis['key']}={','.join(axis['values'])}")]
        now = self.document("sweep", call["scenario"], "--set", *call["set"], *options, "-o", "sweep")
        times = [cell["metrics"]["step_time_s"] for cell in now["cells"]]
        version = self.panpipe("--version").split()[1]
        if version == call["version"]:
            self.assertEqual(times, [0.125, *before[1:]])
        else:  # a cell of another version is predicted again
            self.assertNotIn(0.125, times)

    def test_runs_and_calibration(self):
        answer = self.document("validate", "runs.csv", "--calibration", "calibration.yaml")
        self.assertEqual([row["id"] for row in answer["rows"]], ["one", "two", "three", "four"])
        self.assertEqual([row["skipped"] for row in answer["rows"]], [None] * 4)
        # What the table does not state, and only that, is assumed: a column that was not read would show here.
        without = ["seq_parallel: false"]  # asked of rows with tensor parallelism
        self.assertEqual([row["assumed"] for row in answer["rows"]], [[], [], without, without])
        # The calibration is used: with half the efficiency of products they take nearly twice the time. Some products
        # wait for memory instead, and take no longer.
        file = self.folder / "calibration.yaml"
        stated = float(file.read_text().split("gemm_efficiency: {value: ")[1].split(",")[0])
        file.write_text(file.read_text().replace(f"value: {stated}", f"value: {stated / 2}").replace("range: [0.5,", "range: [0.1,"))
        halved = self.document("validate", "runs.csv", "--calibration", "calibration.yaml")
        for now, then in zip(halved["rows"], answer["rows"]):
            self.near(now["terms"]["products_s"], 2 * then["terms"]["products_s"], 0.05, now["id"])

    # Two bridges of 50 GB/s, everything else over PCIe.
    def test_cluster(self):
        links = self.document("check", "topology.yaml", "--links")
        self.assertEqual(links["devices"], 4)
        rates = {(pair["from"][-1], pair["to"][-1]): pair["bandwidth_bytes_per_s"] for pair in links["pairs"] if pair["class"] == "bridge"}
        self.assertEqual(rates, {pair: 50e9 for pair in (("0", "1"), ("1", "0"), ("2", "3"), ("3", "2"))})


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    if result.testsRun and len(result.skipped) == result.testsRun:
        print(result.skipped[0][1])
        sys.exit(77)
    sys.exit(not result.wasSuccessful())
