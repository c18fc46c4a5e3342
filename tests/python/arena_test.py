"""The arena from Python, and a schedule that is trained: gradients equal to one process's."""

import unittest

import panpipe
from asked import Cases, command, refusal, text
from panpipe.actions import B, F, I, W

# A GPT that trains in milliseconds, over two ranks; a unit of its own for each of four stages.
SMALL = {
    "panpipe": 1,
    "cluster": {"devices": 2, "memory": "4 GiB", "link": {"latency": "20 us", "bandwidth": "4 GB/s"}},
    "workload": {"model": "gpt", "layers": 4, "hidden": 32, "heads": 4, "vocabulary": 96, "sequence": 16},
    "batch": {"micro": 2, "microbatches": 4},
    "optimizer": "adam",
}


@panpipe.schedule
def late_weights(rank, ranks, microbatches, costs, held=0):
    """Forwards first, as many as 1F1B or `held` more; weight gradients where the rank would wait, if they are cheap."""
    warmup = min(ranks - 1 - rank + held, microbatches)
    yield from (F(m) for m in range(warmup))
    waiting = []
    for m in range(microbatches):
        if warmup + m < microbatches:
            yield F(warmup + m)
        yield I(m)
        waiting.append(m)
        if len(waiting) > (rank if costs["W"] <= costs["F"] else 0):
            yield W(waiting.pop(0))
    yield from (W(m) for m in waiting)


@panpipe.schedule(stages_per_rank=2, placement="wave")
def there_and_back(rank, microbatches, stages):
    for m in range(microbatches):
        yield from (F(m, stages[0]), F(m, stages[1]), B(m, stages[1]), B(m, stages[0]))


@panpipe.schedule
def crossed(rank, microbatches):
    order = range(microbatches) if rank else reversed(range(microbatches))
    for m in order:
        yield from (F(m), B(m))


class Arena(Cases):
    def test_the_document_of_the_command(self):
        found = panpipe.arena("zb-h1", "hanayo,stages_per_rank=4", alone=True, cost_ratios=["even", (10, 12, 8)])
        line = "arena zb-h1 hanayo,stages_per_rank=4 --alone --cost-ratios even,10:12:8"
        self.assertEqual(found.to_dict(), command(line))
        self.assertEqual(found.to_text(), text(line))
        self.assertIn("<svg", found.to_page())

    def test_every_kind_of_entrant(self):
        order = panpipe.schedule("zb-h1", ranks=4, microbatches=8)
        file = self.written("mine.csv", there_and_back(4, 8).to_csv())
        found = panpipe.arena(late_weights, order, file, "1f1b", ranks=4, microbatches=8, alone=True, clusters=())
        rows = found.table.to_pydict()
        self.assertEqual(sorted(rows["schedule"]), ["1f1b", "late_weights", "mine.csv", "zb-h1"])
        makespans = dict(zip(rows["schedule"], rows["makespan"]))
        # A rank's share is F = I = W = 1: 1F1B 3 x (8 + 3); ZB-H1 3 x 8 + 3 (its bubble is (P - 1)(F + I - W)).
        self.assertEqual((makespans["1f1b"], makespans["zb-h1"]), (33.0, 27.0))
        self.assertEqual(makespans["late_weights"], late_weights(4, 8).makespan)
        # Two stages a rank share its work: half of the makespan under costs of 1 each.
        self.assertEqual(makespans["mine.csv"], there_and_back(4, 8).makespan / 2)
        self.assertEqual(rows["legal"], [True] * 4)

    def test_the_sizes_are_of_the_first_order(self):
        found = panpipe.arena(panpipe.schedule("gpipe", ranks=3, microbatches=5), there_and_back, alone=True, clusters=())
        self.assertEqual((found.ranks, found.microbatches), (3, 5))

    def test_an_order_for_each_ratio(self):
        found = panpipe.arena(late_weights, alone=True, clusters=(), cost_ratios=["even", (1, 1, 2)])
        rows = found.table.to_pydict()
        self.assertEqual(rows["costs"], ["even", "1:1:2"])
        for ratio, makespan in zip(({}, {"W": 2}), rows["makespan"]):
            self.assertEqual(makespan, late_weights(4, 8, costs=ratio).makespan)

    def test_what_is_not_legal_says_why(self):
        found = panpipe.arena(crossed, "1f1b", ranks=2, microbatches=2, alone=True, clusters=())
        rows = found.table.to_pydict()
        self.assertEqual((rows["schedule"], rows["legal"]), (["1f1b", "crossed"], [True, False]))
        self.assertEqual(rows["makespan"][1], None)
        self.assertTrue(rows["reason"][1].startswith("rank 0: step 1: 0B1 "), rows["reason"][1])

    def test_winners_and_deadlocks(self):
        found = panpipe.arena("1f1b", "zb-h1", "gpipe", alone=True, clusters=["h100x8"])
        winners = found.winners.to_pydict()
        self.assertEqual(winners["memory"], [2, 2, 3, 3, 4, 4, 8, 8])  # 1/2, 3/4, 1 and 2 times 4 ranks
        self.assertEqual(winners["cluster"], ["", "h100x8"] * 4)
        self.assertEqual(winners["schedule"], [None] * 4 + ["zb-h1"] * 4)
        rows = found.table.to_pydict()
        self.assertEqual(dict(zip(rows["schedule"], rows["deadlocks"]))["1f1b"], "late blocking")
        self.assertEqual(dict(zip(rows["schedule"], rows["deadlocks"]))["gpipe"], "")
        self.assertTrue(all(time > 0 for time in rows["h100x8"]))

    def test_faults(self):
        cases = (
            (lambda: panpipe.arena("zb-h3", alone=True), "did you mean 'zb-h1'"),
            (lambda: panpipe.arena(alone=True), "name a schedule"),
            (lambda: panpipe.arena("1f1b", alone=True, backend="ns3"), "'ns3'"),
            (lambda: panpipe.arena("1f1b", alone=True, cost_ratios=["9k"]), "there is no '9k'"),
            (lambda: panpipe.arena(late_weights.with_options(held="x"), alone=True), "raises TypeError"),
        )
        for call, part in cases:
            with self.subTest(part):
                self.assertIn(part, str(refusal(call)))


class Runs(unittest.TestCase):
    def trained(self, schedule, **more):
        try:
            return panpipe.run(SMALL, set={"schedule": schedule}, steps=2, warmup=0, threads=1, **more)
        except panpipe.MachineError as error:
            self.skipTest(str(error))

    def test_gradients_are_those_of_one_process(self):
        losses = set()
        for schedule in (late_weights, there_and_back, "1f1b"):
            done = self.trained(schedule, transport="local")
            self.assertTrue(done.gradients_equal, done)
            self.assertLess(done.gradient_difference, 2e-5)
            self.assertGreater(done.step_time_s, 0)
            self.assertIsNone(done.predicted_step_time_s)  # a cluster without rates
            losses.add(tuple(round(loss, 4) for loss in done.losses))
        self.assertEqual(len(losses), 1)

    def test_two_processes_with_a_profile(self):
        done = self.trained(late_weights(2, 4), profile=True)
        self.assertTrue(done.gradients_equal)
        self.assertGreater(done.predicted_step_time_s, 0)
        self.assertEqual(done.metrics["step_time_s"], done.step_time_s)
        self.assertEqual(done.to_dict()["kind"], "measured")

    def test_gradients_that_differ_are_seen(self):
        from array import array

        from panpipe._run import _difference

        self.assertEqual(_difference({"w": array("f", [1, 2])}, {"w": array("f", [1, 4])}), 0.5)
        self.assertEqual(_difference({"w": array("f", [0.0])}, {"w": array("f", [0.0])}), 0.0)
        self.assertEqual(_difference({"w": array("f", [1.0])}, {"w": array("f", [0.0])}), float("inf"))
        self.assertEqual(_difference({"w": array("f", [float("nan")])}, {"w": array("f", [1.0])}), float("inf"))
        with self.assertRaises(panpipe.InternalError):
            _difference({"w": array("f", [1])}, {"v": array("f", [1])})

    def test_what_the_run_refuses(self):
        self.assertEqual(str(refusal(panpipe.run, SMALL, steps=0)), "error: --steps must be at least 1, not 0")


if __name__ == "__main__":
    unittest.main()
