"""Every option of the verbs, and the smaller verbs, compared with the command's answer to the same question."""

import csv
import unittest

import panpipe
from asked import LARGE, LLAMA, RUNS, SMALL, Cases, command, text

FREE = {"parallel": {}, "schedule": "1f1b"}
AUTO = {"parallel": {}, "schedule": "auto"}
JOB = """torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size $TP --pipeline-model-parallel-size 2 \\
  --num-layers 12 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 \\
  --micro-batch-size 1 --global-batch-size 16 --vocab-size 50304 --tokenizer-type NullTokenizer --bf16
"""
AS_WORDS = f"plan {LLAMA} --set parallel={{}} --set schedule=1f1b --tokens 10B --threads 1"


class Plans(Cases):
    def test_a_deadline_or_a_budget_chooses_the_size(self):
        limits = {"deadline": "60d", "budget": "1000000USD"}
        for name, limit in limits.items():
            sizes = panpipe.plan(LLAMA, set=FREE, tokens="10B", threads=1, **{name: limit})
            document = command(f"{AS_WORDS} --{name} {limit}")
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
        self.assertEqual(sizes.to_dict(), command(f"{AS_WORDS} --objective cost --nodes 1,2"))

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
        document = command(f"plan {LLAMA} --set parallel={{}} --set schedule=auto --for megatron --threads 1")
        self.assertEqual([one.summary for one in found.candidates], [one["summary"] for one in document["candidates"]])

    def test_a_job_in_place_of_a_scenario(self):
        script = self.written("train.sh", JOB)
        found = panpipe.plan(script, trainer="megatron", define={"TP": 2}, threads=1)
        self.assertEqual(found.to_dict(), command(f"plan {script} --for megatron --define TP=2 --threads 1"))
        self.assertEqual(found.yours.settings["parallel.tensor"], 2)
        self.assertEqual(found.job.scenario, panpipe.import_job("megatron", script, define={"TP": 2}).scenario)
        plan = self.written("plan.yaml", found.yaml)
        exported = panpipe.export("megatron", found.job.scenario, plan=plan, base=script, define={"TP": "2"})
        self.assertIn("pretrain_gpt.py", exported.text)
        self.assertIsNone(panpipe.plan(LLAMA, set=FREE, trainer="megatron", threads=1).job)
        for call, words in (
            (lambda: panpipe.plan(script, trainer="megatron"), "these are not known: TP"),
            (lambda: panpipe.plan(script, trainer="megatron", define={"TP": 2}, gpus=[8, 16]), "of a job it is one number"),
            (lambda: panpipe.plan(LLAMA, trainer="megatron", define={"TP": 2}), "this is read as a scenario"),
        ):
            with self.assertRaisesRegex(panpipe.InputError, words):
                call()


class WhatFits(Cases):
    def test_the_largest_microbatch_on_devices(self):
        found = panpipe.largest(SMALL, "micro", devices=["rtx-3090", "a100-40g-sxm"], set={"usable": "90 %"})
        self.assertEqual(
            found.to_dict(), command(f"estimate {SMALL} --largest micro --device rtx-3090,a100-40g-sxm --set usable=90%")
        )
        self.assertEqual(found.value, found.devices[0]["fits"])
        self.assertEqual(len(found.table), 2)

    def test_with_the_best_plan_of_each_value(self):
        found = panpipe.largest(SMALL, "micro", set={"schedule": "1f1b"}, search=True, open=True, threads=1)
        self.assertEqual(found.to_dict(), command(f"plan {SMALL} --set schedule=1f1b --open --largest micro --threads 1"))

    def test_what_cannot_be_asked(self):
        with self.assertRaisesRegex(panpipe.InputError, "micro, sequence"):
            panpipe.largest(LARGE, "tokens")


class Measured(Cases):
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
        table = text(
            f"fit {runs} --device A100-80G-SXM --only launch,step --without 'mtnlg=too few' --folds 2 --iterations 3 --balance 0 "
            f"-o {out} --left-out {left_out}"
        )
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
        mine = self.written("mine.yaml", fitted.yaml)
        judged = panpipe.validate(runs, calibrations=mine, left_out=left_out, without=["mtnlg"])
        document = command(f"validate {runs} --calibration {mine} --left-out {left_out} --without mtnlg")
        self.assertEqual(judged.to_dict(), document)
        self.assertNotIn("mtnlg", {row["source"] for row in judged.rows})

    def test_evidence(self):
        runs, file = self.some_runs("megatron21", "korth22"), self.folder / "evidence.json"
        judged = panpipe.validate(runs, learn=True)
        self.assertEqual(judged.to_dict(), command(f"validate {runs} --learn {file}"))
        self.assertEqual(judged.evidence, file.read_text())
        self.assertEqual(panpipe.validate(runs).evidence, "")

    def test_products(self):
        products = RUNS.with_name("products.csv")
        found = panpipe.validate(products)
        self.assertEqual(found.to_dict(), command(f"validate {products}"))
        self.assertGreater(len(found.rows), 100)
        self.assertEqual(len(found.table), len(found.rows))
        with self.assertRaisesRegex(panpipe.InputError, "stands alone"):
            panpipe.validate(products, without="x")


class OtherVerbs(Cases):
    def test_compare_and_report(self):
        idle, shared = panpipe.estimate(SMALL), panpipe.simulate(SMALL, backend="flow")
        a, b, page = (self.folder / name for name in ("a", "b", "page.html"))
        text(f"estimate {SMALL} -o {a}")
        text(f"simulate {SMALL} --backend flow -o {b}")
        document = command(f"compare {a} {b}")
        found = panpipe.compare(idle, shared, tolerances={"step_time_s": "50%"})
        self.assertTrue(found.ok)
        other = panpipe.estimate(SMALL, set={"batch.micro": 1})
        self.assertFalse(panpipe.compare(a, other, tolerances=["step_time_s=1%"], metrics_only=True).ok)
        self.assertEqual(panpipe.compare(a, b).to_dict(), document)
        self.assertEqual(panpipe.compare(idle, shared).to_dict()["metrics"], document["metrics"])
        text(f"report {a} {b} -o {page}")
        self.assertEqual(panpipe.report(a, b), page.read_text())
        self.assertIn("<!DOCTYPE html>", panpipe.report(idle, shared))

    def test_support(self):
        self.assertEqual(panpipe.support(LARGE), command(f"support {LARGE}"))

    def test_shipped(self):
        self.assertEqual(panpipe.shipped(), command("list")["items"])
        for kind in panpipe.shipped():
            self.assertEqual(panpipe.shipped(kind["name"]), command(f"list {kind['name']}")["items"])

    def test_a_job_comes_in_and_goes_out(self):
        out = panpipe.export("megatron", LARGE)
        self.assertEqual(out.text, text(f"export megatron {LARGE}"))
        file = self.written("job.sh", out.text)
        job = panpipe.import_job("megatron", file, gpus=64)
        text(f"import megatron {file} --gpus 64 -o {self.folder / 'job.yaml'}")
        self.assertEqual(job.fault, "")
        # The file and the dict are the same scenario.
        self.assertEqual(panpipe.estimate(job.scenario).metrics, panpipe.estimate(self.folder / "job.yaml").metrics)
        self.assertEqual(panpipe.estimate(job).metrics, panpipe.estimate(job.scenario).metrics)
        planned = {"trainer": "megatron", "threads": 1}
        self.assertEqual(panpipe.plan(job, **planned).to_dict(), panpipe.plan(job.scenario, **planned).to_dict())
        self.assertEqual(job.scenario["parallel"]["tensor"], 8)
        # And back into the file.
        same = panpipe.export("megatron", job.scenario, base=file)
        self.assertEqual((same.text, same.difference), (out.text, ""))
        other = panpipe.export("megatron", job.scenario, set={"batch.micro": 2}, base=file)
        self.assertIn("+  --micro-batch-size 2", other.difference)

    def test_a_log_is_read(self):
        file = RUNS.parents[2] / "tests" / "jobs" / "data" / "megatron.log"
        log = panpipe.import_log(file, cluster="dgx-a100-80g")
        self.assertEqual(log.document, command(f"import log {file} --cluster dgx-a100-80g"))
        self.assertEqual(log.step_time_s, log.document["measured"]["step_time_s"])
        rows = panpipe.validate(self.written("runs.csv", log.row)).document["rows"]
        self.assertEqual([row["measured_s"] for row in rows], [log.step_time_s])

    def test_an_order_without_a_name_needs_a_file(self):
        with self.assertRaises(panpipe.InputError):
            panpipe.export("megatron", LARGE, set={"schedule": "zb-v"})


if __name__ == "__main__":
    unittest.main()
