"""Every function of the package, compared with the command's answer to the same question."""

import json
import os
import pathlib
import pickle
import threading
import unittest

import panpipe
from asked import LARGE, LLAMA, SMALL, Cases, command

SCENARIO = {
    "panpipe": 1,
    "cluster": {"file": "clusters/dgx-a100-80g.yaml", "nodes": 8},
    "workload": {"model": "gpt3-175b", "sequence": 2048},
    "batch": {"micro": 1, "microbatches": 64},
    "precision": "fp16",
    "parallel": {"pipeline": 8, "tensor": 8, "virtual_stages": 3},
    "schedule": "interleaved-1f1b",
    "partition": "auto",
    "recompute": "full",
    "optimizer": "adam",
    "framework": "megatron",
}


def without_clock(document):
    document = json.loads(json.dumps(document))
    for name in ("date", "host", "wall_s", "hashes"):
        document["context"].pop(name, None)
    return document


class Predictions(Cases):
    def test_estimate_says_what_the_command_says(self):
        for scenario in (SMALL, LARGE, "examples/mixtral-8x7b-h100x64.yaml"):
            step = panpipe.estimate(scenario)
            document = command(f"estimate {scenario} --timeline")
            self.assertEqual(step.metrics, document["metrics"])
            self.assertEqual(without_clock(step.to_dict(timeline=True)), without_clock(document))
            self.assertEqual(step.step_time_s, document["metrics"]["step_time_s"])
            self.assertEqual(len(step.timeline), len(document["timeline"]))

    def test_simulate_says_what_the_command_says(self):
        step = panpipe.simulate(SMALL, backend="flow")
        self.assertEqual(step.metrics, command(f"simulate {SMALL} --backend flow")["metrics"])
        self.assertEqual(step.kind, "simulated")
        self.assertGreaterEqual(step.step_time_s, panpipe.estimate(SMALL).step_time_s)

    def test_simgrid_is_found_from_the_package(self):
        if not os.path.exists(os.path.join(os.environ["PANPIPE_BIN"], "panpipe_simgrid.so")):
            self.skipTest("this build has no SimGrid")
        self.assertEqual(panpipe.simulate(SMALL).metrics, command(f"simulate {SMALL}")["metrics"])

    def test_a_dict_is_the_file_with_its_keys(self):
        self.assertEqual(panpipe.estimate(SCENARIO).metrics, panpipe.estimate(LARGE).metrics)

    def test_settings_take_the_place_of_keys(self):
        step = panpipe.estimate(
            LARGE, set={"recompute": "selective", "parallel.sequence_parallel": True, "batch": {"micro": 1, "microbatches": 128}}
        )
        settings = ("recompute=selective", "parallel.sequence_parallel=true", "'batch={micro: 1, microbatches: 128}'")
        line = f"estimate {LARGE} " + " ".join(f"--set {setting}" for setting in settings)
        self.assertEqual(step.metrics, command(line)["metrics"])

    def test_a_file_that_changed_is_read_again(self):
        text = pathlib.Path(os.environ["PANPIPE_BIN"], "..", "share", "panpipe", SMALL).read_text()
        file = self.written("mine.yaml", text)
        before = panpipe.estimate(file).step_time_s
        file.write_text(text.replace("micro: 2", "micro: 1"))
        after = panpipe.estimate(file).step_time_s
        self.assertEqual(before, panpipe.estimate(SMALL).step_time_s)
        self.assertEqual(after, panpipe.estimate(SMALL, set={"batch.micro": 1}).step_time_s)
        self.assertLess(after, before)

    def test_a_change_of_the_same_size_is_seen_from_every_thread(self):
        text = pathlib.Path(os.environ["PANPIPE_BIN"], "..", "share", "panpipe", SMALL).read_text()
        texts = [text.replace("micro: 2", f"micro: {micro}") for micro in (1, 2)]
        wanted = [panpipe.estimate(SMALL, set={"batch.micro": micro}).step_time_s for micro in (1, 2)]
        found = []

        def ask(file):
            for turn in range(8):
                file.write_text(texts[turn % 2])
                found.append((turn % 2, panpipe.estimate(file).step_time_s, panpipe.estimate(SMALL, set={"seed": turn}).fits))

        threads = [threading.Thread(target=ask, args=(self.folder / f"{name}.yaml",)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(found), 32)
        self.assertEqual([step for _, step, _ in found], [wanted[turn] for turn, _, _ in found])

    def test_a_plan_goes_from_one_call_to_the_next(self):
        step = panpipe.estimate(SMALL)
        self.assertEqual(panpipe.estimate(SMALL, plan=self.written("plan.yaml", step.plan)).metrics, step.metrics)

    def test_notebooks_see_a_picture(self):
        step = panpipe.estimate(SMALL)
        self.assertIn("<svg", step._repr_svg_())
        self.assertIn("<svg", step._repr_html_())
        self.assertIn("step time", step._repr_html_())
        self.assertIn("<!DOCTYPE html>", step.to_page())
        self.assertRegex(repr(step), r"^<panpipe.Prediction: estimated step \d+\.?\d* ms, peak \d+\.\d+ GiB, fits>$")
        self.assertIn("traceEvents", step.to_trace())

    def test_answers_name_themselves_in_a_line(self):
        plan = panpipe.plan(SMALL, set={"schedule": ["1f1b", "gpipe"]})
        self.assertRegex(repr(plan), r"^<panpipe.Plan: .*: step \d+\.?\d* m?s; \d+ candidates?(, proved optimal)?>$")
        self.assertLess(len(repr(plan)), 200)
        judged = panpipe.arena("1f1b", "gpipe", ranks=4, microbatches=8)
        self.assertRegex(repr(judged), r"^<panpipe.Arena: \d+ schedules, 4 ranks, 8 microbatches>$")

    def test_what_is_assumed_of_a_model_is_an_attribute(self):
        # One dimension is left to the class.
        config = {"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 48, "vocab_size": 1000}
        path = self.written("config.json", json.dumps({"model_type": "llama", **config}))
        step = panpipe.estimate(SCENARIO | {"workload": {"config": str(path), "sequence": 128}})
        self.assertEqual(len(step.assumed), 1)
        self.assertIn("num_attention_heads 32: ", step.assumed[0])

    def test_a_result_travels(self):
        step = panpipe.simulate(SMALL, backend="flow")
        other = pickle.loads(pickle.dumps(step))
        self.assertEqual(other.metrics, step.metrics)
        self.assertEqual(without_clock(other.to_dict()), without_clock(step.to_dict()))
        self.assertEqual((step.assumed, other.assumed), ([], []))
        self.assertEqual(other.timeline.to_pydict(), step.timeline.to_pydict())
        for same in ("plan", "scenario"):
            self.assertEqual(getattr(other, same), getattr(step, same))
        self.assertEqual(other.to_svg(), step.to_svg())
        self.assertEqual(pickle.loads(pickle.dumps(other)).metrics, step.metrics)

    def test_check_gives_every_value_its_origin(self):
        checked = panpipe.check(LARGE, set={"batch.microbatches": 128})
        self.assertEqual(checked.values["parallel.tensor"], "8")
        self.assertTrue(checked.origins["parallel.tensor"].endswith("gpt3-175b-a100x64.yaml:9"))
        self.assertEqual(checked.origins["batch.microbatches"], "--set")
        self.assertEqual((checked.stages, checked.devices), (24, 64))  # 8 ranks x 3 stages; 8 x 8 devices
        self.assertEqual(panpipe.check(SCENARIO).origins["parallel.tensor"], "scenario")

    def test_threads_make_progress_together(self):
        counted = 0
        done = threading.Event()

        def work():
            panpipe.plan(SMALL, method="pfeife", threads=1)
            done.set()

        thread = threading.Thread(target=work)
        thread.start()
        while not done.is_set():  # would not be entered before the end if the search held the interpreter
            panpipe.estimate(SMALL)
            counted += 1
        thread.join()
        self.assertGreater(counted, 2)


class Searches(Cases):
    def test_plan(self):
        found = panpipe.plan(SMALL, method="pfeife", threads=1)
        document = command(f"plan {SMALL} --method pfeife --threads 1")
        self.assertEqual(found.best.metrics, document["best"]["metrics"])
        self.assertEqual([one.summary for one in found.candidates], [one["summary"] for one in document["candidates"]])
        self.assertIn("schedule:", found.yaml)
        self.assertEqual(len(found.table), len(found.candidates))

    def test_yours_stands_beside_the_best(self):
        found = panpipe.plan(SMALL, open=True, threads=1)
        document = command(f"plan {SMALL} --open --threads 1")
        self.assertEqual(found.yours.metrics, document["yours"]["metrics"])
        self.assertEqual(found.yours.metrics["step_time_s"], panpipe.estimate(SMALL).step_time_s)
        self.assertEqual(found.best.gain_over_yours, document["best"]["gain_over_yours"])
        self.assertEqual(found.best.tie_with_yours, document["best"]["tie_with_yours"])
        without_split = {key: value for key, value in SCENARIO.items() if key != "parallel"}
        self.assertIsNone(panpipe.plan(without_split, set={"schedule": "1f1b"}, threads=1).yours)

    def test_no_plan_is_an_answer_with_a_reason(self):
        found = panpipe.plan(SMALL, set={"usable": "1 %"})
        self.assertEqual(found.candidates, [])
        self.assertTrue(found.reason)
        with self.assertRaises(panpipe.NoAnswer):
            _ = found.best

    def test_sizes(self):
        sizes = panpipe.plan(LLAMA, set={"parallel": {}, "schedule": "auto"}, gpus=[8, 16], threads=1)
        self.assertEqual(list(sizes.plans), [8, 16])
        times = sizes.table.to_pydict()["step_time_s"]
        self.assertLess(times[1], times[0])
        with self.assertRaisesRegex(panpipe.InputError, "8 devices each, and 12 is no multiple"):
            panpipe.plan(LLAMA, gpus=[12])

    def test_sweep(self):
        over = {"schedule": ["1f1b", "zb-h1", "nonsense"], "batch.micro": [1, 2, 64]}
        swept = panpipe.sweep(SMALL, over)
        document = command(f"sweep {SMALL} --over schedule=1f1b,zb-h1,nonsense --over batch.micro=1,2,64")
        self.assertEqual(swept.cells, document["cells"])
        columns = swept.table.to_pydict()
        self.assertEqual(columns["batch.micro"], [1, 2, 64] * 3)
        self.assertEqual(columns["status"][6], "refused")
        self.assertIsNone(columns["step_time_s"][6])
        self.assertIn("<!DOCTYPE html>", swept.page)
        self.assertIn("<table>", swept._repr_html_())

    def test_sweep_of_a_dict(self):
        swept = panpipe.sweep(SCENARIO, {"recompute": ["full", "selective"]})
        self.assertEqual(
            [cell["metrics"]["step_time_s"] for cell in swept.cells],
            [panpipe.estimate(LARGE, set={"recompute": mode}).step_time_s for mode in ("full", "selective")],
        )


class Measured(Cases):
    RUNS = pathlib.Path(__file__).resolve().with_name("runs.csv")

    def test_validate(self):
        found = panpipe.validate(self.RUNS, tolerances={"mean": "90%"})
        document = command(f"validate {self.RUNS} --tolerance mean=90%")
        self.assertEqual(found.to_dict(), document)
        self.assertTrue(found.ok)
        self.assertEqual(len(found.table), len(document["rows"]))
        self.assertFalse(panpipe.validate(self.RUNS, tolerances=["mean=0%"]).ok)

    def test_fit_says_what_it_lacks(self):
        with self.assertRaisesRegex(panpipe.InputError, "device: there is no data sheet of"):
            panpipe.fit(self.RUNS, "nonsense")


class Schedules(Cases):
    def test_figures(self):
        # F 1, B 2 on 4 ranks, 8 microbatches: (8 + 3) x 3 = 33, of which 9 idle
        order = panpipe.schedule("1f1b", ranks=4, microbatches=8)
        self.assertEqual((order.makespan, order.bubble_step, order.peak_activations), (33, 9 / 33, [4, 3, 2, 1]))
        self.assertEqual(order.to_dict(), command("schedule 1f1b --ranks 4 --microbatches 8"))
        self.assertEqual(len(order.timeline), 4 * 8 * 2)
        self.assertIn("<svg", order._repr_svg_())
        self.assertEqual(pickle.loads(pickle.dumps(order)).makespan, 33)

    def test_options_and_costs(self):
        order = panpipe.schedule(
            "interleaved-1f1b", ranks=4, microbatches=8, stages_per_rank=4, costs={"F": 1, "I": 1, "W": [1] * 16, "comm": 0.5}
        )
        costs = "F=1,I=1,W=" + "/".join(["1"] * 16) + ",comm=0.5"
        line = f"schedule interleaved-1f1b --ranks 4 --microbatches 8 --option stages_per_rank=4 --costs {costs}"
        self.assertEqual(order.to_dict(), command(line))

    def test_semantics(self):
        order = panpipe.schedule("1f1b", ranks=4, microbatches=8)
        self.assertEqual(order.semantics(), command("schedule 1f1b --ranks 4 --microbatches 8 --semantics all"))

    def test_a_file_that_is_not_legal(self):
        order = panpipe.schedule(self.written("mine.csv", "0B0,0F0\n1F0,1B0\n"))
        self.assertFalse(order.legal)
        self.assertTrue(order.problems[0].message)
        self.assertIsNone(order._repr_svg_())
        with self.assertRaises(panpipe.NoAnswer):
            _ = order.makespan

    def test_families(self):
        names = [family.name for family in panpipe.families()]
        self.assertIn("zb-v", names)
        for name in names:
            self.assertTrue(panpipe.schedule(name, ranks=4, microbatches=16).legal, name)


if __name__ == "__main__":
    unittest.main()
