"""Every option of the verbs, and the smaller verbs, compared with the command's answer to the same question."""

import csv
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import panpipe

PROGRAM = os.path.join(os.environ["PANPIPE_BIN"], "panpipe")
ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNS = ROOT / "validation" / "published" / "runs.csv"
SMALL, LARGE, LLAMA = "examples/gpt2-large-rtx3090x8.yaml", "examples/gpt3-175b-a100x64.yaml", "examples/llama-3-8b-h100.yaml"
FREE = {"parallel": {}, "schedule": "1f1b"}
AUTO = {"parallel": {}, "schedule": "auto"}
AS_WORDS = ("--set", "parallel={}", "--set", "schedule=1f1b")


def text(*words, code=0):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout


def command(*words, code=0):
    return json.loads(text(*words, code=code))


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class Plans(InFolder):
    def test_a_deadline_or_a_budget_chooses_the_size(self):
        limits = {"deadline": "60d", "budget": "1000000USD"}
        for name, limit in limits.items():
            sizes = panpipe.plan(LLAMA, set=FREE, tokens="10B", threads=1, **{name: limit})
            document = command("plan", LLAMA, *AS_WORDS, "--tokens", "10B", "--threads", "1", f"--{name}", limit, "--json")
            self.assertEqual(sizes.to_dict(), document)
            self.assertEqual(sizes.best, document["best"])
            self.assertEqual(list(sizes.plans), [size["gpus"] for size in document["sizes"]])
            self.assertEqual(
                sizes.plans[sizes.best].best.summary,
                next(size["plan"] for size in document["sizes"] if size["gpus"] == sizes.best),
            )
        self.assertIsNone(panpipe.plan(LLAMA, set=FREE, gpus=[8]).best)

    def test_an_objective_compares_sizes(self):
        sizes = panpipe.plan(LLAMA, set=FREE, tokens="10B", threads=1, objective="cost", nodes=[1, 2])
        self.assertEqual(
            sizes.to_dict(),
            command(
                "plan", LLAMA, *AS_WORDS, "--tokens", "10B", "--threads", "1", "--objective", "cost", "--nodes", "1,2", "--json"
            ),
        )

    def test_no_size_within_the_limit(self):
        sizes = panpipe.plan(LLAMA, set=FREE, tokens="10B", threads=1, budget="1USD")
        self.assertIsNone(sizes.best)
        self.assertFalse(sizes.to_dict()["feasible"])

    def test_nodes_are_gpus_by_the_node(self):
        by_gpus, by_nodes = panpipe.plan(LLAMA, set=FREE, gpus=[8, 16]), panpipe.plan(LLAMA, set=FREE, nodes=[1, 2])
        self.assertEqual(list(by_nodes.plans), [8, 16])
        self.assertEqual([plan.best for plan in by_gpus.plans.values()], [plan.best for plan in by_nodes.plans.values()])

    def test_for_a_trainer(self):
        found = panpipe.plan(LLAMA, set=AUTO, trainer="megatron", threads=1)
        document = command(
            "plan", LLAMA, "--set", "parallel={}", "--set", "schedule=auto", "--for", "megatron", "--threads", "1", "--json"
        )
        self.assertEqual([one.summary for one in found.candidates], [one["summary"] for one in document["candidates"]])


class Measured(InFolder):
    def some_runs(self, *sources):
        with open(RUNS, newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
        place = rows[0].index("source")
        path = self.folder / "runs.csv"
        with open(path, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([rows[0], *(row for row in rows[1:] if row[place] in sources)])
        return path

    def test_fit_gives_what_the_command_gives(self):
        if not panpipe._core.fit_available():
            self.skipTest("this build has no Ceres")
        runs, out, left_out = self.some_runs("megatron21", "korth22", "mtnlg"), self.folder / "fit.yaml", self.folder / "left.csv"
        fitted = panpipe.fit(
            runs, "A100-80G-SXM", only=["launch", "step"], without={"mtnlg": "too few"}, folds=2, iterations=3, balance=0
        )
        words = (
            "--only",
            "launch,step",
            "--without",
            "mtnlg=too few",
            "--folds",
            2,
            "--iterations",
            3,
            "--balance",
            0,
            "-o",
            out,
            "--left-out",
            left_out,
        )
        table = text("fit", runs, "--device", "A100-80G-SXM", *words)
        differs = ("# A100", "# fit", "name:", "  command:")  # by the file's name
        own, theirs = (
            [line for line in content.splitlines() if not line.startswith(differs)] for content in (fitted.yaml, out.read_text())
        )
        self.assertEqual(own, theirs)
        self.assertEqual(fitted.text, table)
        self.assertEqual(fitted.left_out_table, left_out.read_text())
        self.assertEqual(set(fitted.parameters), {"launch", "step"})
        self.assertLess(fitted.errors["mean"], fitted.errors["before"])
        self.assertTrue(any(row.endswith(": too few") for row in fitted.left_out), fitted.left_out)
        # Its calibration predicts as the command's does.
        mine = self.folder / "mine.yaml"
        mine.write_text(fitted.yaml)
        judged = panpipe.validate(runs, calibrations=mine, left_out=left_out, without=["mtnlg"])
        self.assertEqual(
            judged.to_dict(),
            command("validate", runs, "--calibration", mine, "--left-out", left_out, "--without", "mtnlg", "--json"),
        )
        self.assertNotIn("mtnlg", {row["source"] for row in judged.rows})

    def test_evidence(self):
        runs, file = self.some_runs("megatron21", "korth22"), self.folder / "evidence.json"
        judged = panpipe.validate(runs, evidence=True)
        self.assertEqual(judged.to_dict(), command("validate", runs, "--evidence", file, "--json"))
        self.assertEqual(judged.evidence, file.read_text())
        self.assertEqual(panpipe.validate(runs).evidence, "")

    def test_products(self):
        products = RUNS.with_name("products.csv")
        found = panpipe.validate(products)
        self.assertEqual(found.to_dict(), command("validate", products, "--json"))
        self.assertGreater(len(found.rows), 100)
        self.assertEqual(len(found.table), len(found.rows))
        with self.assertRaisesRegex(panpipe.InputError, "stands alone"):
            panpipe.validate(products, without="x")


class OtherVerbs(InFolder):
    def test_compare_and_report(self):
        idle, shared = panpipe.estimate(SMALL), panpipe.simulate(SMALL, backend="flow")
        text("estimate", SMALL, "-o", self.folder / "a")
        text("simulate", SMALL, "--backend", "flow", "-o", self.folder / "b")
        document = command("compare", self.folder / "a", self.folder / "b", "--json")
        found = panpipe.compare(idle, shared, tolerances={"step_time_s": "50%"})
        self.assertTrue(found.ok)
        self.assertFalse(
            panpipe.compare(
                self.folder / "a",
                panpipe.estimate(SMALL, set={"batch.micro": 1}),
                tolerances=["step_time_s=1%"],
                metrics_only=True,
            ).ok
        )
        self.assertEqual(panpipe.compare(self.folder / "a", self.folder / "b").to_dict(), document)
        self.assertEqual(panpipe.compare(idle, shared).to_dict()["metrics"], document["metrics"])
        text("report", self.folder / "a", self.folder / "b", "-o", self.folder / "page.html")
        self.assertEqual(panpipe.report(self.folder / "a", self.folder / "b"), (self.folder / "page.html").read_text())
        self.assertIn("<!DOCTYPE html>", panpipe.report(idle, shared))

    def test_support(self):
        self.assertEqual(panpipe.support(LARGE), command("support", LARGE, "--json"))

    def test_shipped(self):
        self.assertEqual(panpipe.shipped(), command("list", "--json")["items"])
        for kind in panpipe.shipped():
            self.assertEqual(panpipe.shipped(kind["name"]), command("list", kind["name"], "--json")["items"])

    def test_a_job_comes_in_and_goes_out(self):
        out = panpipe.export("megatron", LARGE)
        self.assertEqual(out.text, text("export", "megatron", LARGE))
        file = self.folder / "job.sh"
        file.write_text(out.text)
        job = panpipe.import_job("megatron", file, gpus=64)
        text("import", "megatron", file, "--gpus", 64, "-o", self.folder / "job.yaml")
        self.assertEqual(job.fault, "")
        # The file and the dict are the same scenario.
        self.assertEqual(panpipe.estimate(job.scenario).metrics, panpipe.estimate(self.folder / "job.yaml").metrics)
        self.assertEqual(job.scenario["parallel"]["tensor"], 8)

    def test_an_order_without_a_name_needs_a_file(self):
        with self.assertRaises(panpipe.InputError):
            panpipe.export("megatron", LARGE, set={"schedule": "zb-v"})


if __name__ == "__main__":
    unittest.main()
