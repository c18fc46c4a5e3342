"""Schedules of one's own: families that a Python function makes, and orders in scenarios."""

import concurrent.futures
import pickle
import unittest

import panpipe
from asked import SMALL, Cases, one_f_one_b, refusal
from panpipe.actions import B, F, I, R, W

SCENARIO = SMALL  # 8 devices in a pipeline, 8 microbatches


@panpipe.schedule(stages_per_rank=2, placement="wave", name="v-gpipe")
def there_and_back(rank, ranks, microbatches, stages, recompute=False):
    for stage in stages:
        yield from (F(m, stage) for m in range(microbatches))
    for stage in reversed(stages):
        for m in range(microbatches):
            if recompute:
                yield R(m, stage)
            yield from (I(m, stage), W(m, stage))


@panpipe.schedule
def of_all_ranks(ranks, microbatches, stages):
    for m in range(microbatches):
        for rank in range(ranks):
            yield rank, F(m, stages[rank][0])
    for m in range(microbatches):
        for rank in reversed(range(ranks)):
            yield rank, f"{rank}B{m}"  # as the CSV has it


class Families(unittest.TestCase):
    def test_one_f_one_b_is_the_shipped_family(self):
        for ranks, microbatches in ((1, 1), (2, 5), (4, 8), (8, 3)):
            shipped = panpipe.schedule("1f1b", ranks=ranks, microbatches=microbatches)
            self.assertEqual(one_f_one_b(ranks, microbatches).to_csv(), shipped.to_csv())

    def test_figures(self):
        # GPipe: (M + P - 1) forwards and as many backwards of twice the time: 3 x (8 + 3).
        order = of_all_ranks(ranks=4, microbatches=8)
        self.assertEqual((order.makespan, order.peak_activations, order.stages), (33.0, [8] * 4, 4))
        self.assertEqual(order.name, "of_all_ranks")
        # On idle links every F, I and W takes 2, 3, 1: gpipe's 2 x 11 and (3 + 1) x 11.
        self.assertEqual(of_all_ranks(4, 8, costs={"F": 2, "I": 3, "W": 1}).makespan, 66.0)

    def test_stages_and_placement(self):
        order = there_and_back(ranks=2, microbatches=3)
        self.assertEqual((order.name, order.stages, order.legal), ("v-gpipe", 4, True))
        self.assertEqual(
            order.to_csv().splitlines()[0], "0F0,0F1,0F2,3F0,3F1,3F2,3I0,3W0,3I1,3W1,3I2,3W2,0I0,0W0,0I1,0W1,0I2,0W2"
        )
        recomputing = there_and_back(2, 3, recompute=True)
        self.assertEqual((recomputing.name, recomputing.legal), ("v-gpipe recompute=True", True))
        loop = panpipe.schedule(stages_per_rank=2)(there_and_back.__wrapped__)(2, 3)
        self.assertEqual(set(loop.timeline.to_pydict()["stage"]), {0, 1, 2, 3})
        self.assertIn("0F0,0F1,0F2,2F0", loop.to_csv())
        own = panpipe.schedule(stages_per_rank=2, placement=lambda stage, ranks: stage // 2)(there_and_back.__wrapped__)(2, 3)
        self.assertIn("0F0,0F1,0F2,1F0", own.to_csv())

    def test_options(self):
        self.assertEqual(there_and_back.options, {"stages_per_rank": 2, "sequence_splits": 1, "recompute": False})
        other = there_and_back.with_options(recompute=True)
        self.assertEqual((other.name, other(2, 3).name), ("v-gpipe recompute=True", "v-gpipe recompute=True"))
        self.assertEqual(other(2, 3).to_csv(), there_and_back(2, 3, recompute=True).to_csv())
        self.assertEqual(there_and_back(2, 3, stages_per_rank=3).stages, 6)

    def test_slices(self):
        @panpipe.schedule(sequence_splits=2)
        def sliced(rank, microbatches):
            for m in range(microbatches):
                yield from (F(m, part=0), F(m, part=1), B(m, part=1), B(m, part=0))

        self.assertTrue(sliced(2, 3).legal)
        self.assertIn("0F0.0,0F0.1,0B0.1,0B0.0", sliced(2, 3).to_csv())

    def test_costs(self):
        @panpipe.schedule
        def adapts(rank, microbatches, costs):
            print(sorted(costs.items()))
            late = [W(m) for m in range(microbatches)] if costs["W"] < costs["I"] else []
            for m in range(microbatches):
                yield from (F(m), I(m)) if late else (F(m), I(m), W(m))
            yield from late

        import contextlib
        import io

        with contextlib.redirect_stdout(io.StringIO()) as printed:
            order = adapts(1, 2, costs={"I": 3, "comm": 0.5})
        self.assertEqual(order.to_csv().splitlines()[-1], "0F0,0I0,0F1,0I1,0W0,0W1")
        self.assertEqual(printed.getvalue(), "[('B', 4.0), ('F', 1.0), ('I', 3.0), ('W', 1.0), ('comm', 0.5)]\n")

    def test_an_order_that_cannot_finish(self):
        @panpipe.schedule
        def crossed(rank, ranks, microbatches):
            if rank == 0:
                yield from (F(0), B(0), F(1), B(1))
            else:
                yield from (F(1), B(1), F(0), B(0))

        order = crossed(2, 2)
        self.assertFalse(order.legal)
        self.assertEqual(
            [(fault.rank, fault.position, fault.action) for fault in order.problems[:2]],
            [(0, 1, "0B0"), (1, 0, "1F1")],
        )

    def test_semantics_pictures_pickles(self):
        order = one_f_one_b(4, 8)
        self.assertEqual([one["receives"] for one in order.semantics("blocking")["orders"]], ["early", "late"])
        self.assertIn("<svg", order.to_svg())
        self.assertEqual(pickle.loads(pickle.dumps(order)).to_csv(), order.to_csv())
        self.assertNotIn("#", order.to_csv(torch=True))


class InScenarios(Cases):
    def test_the_same_figures_as_the_shipped_family(self):
        shipped = panpipe.estimate(SCENARIO, set={"schedule": "1f1b"}).step_time_s
        order = one_f_one_b(8, 8)
        for schedule in (one_f_one_b, order):
            self.assertEqual(panpipe.estimate(SCENARIO, set={"schedule": schedule}).step_time_s, shipped)
        found = panpipe.simulate(SCENARIO, set={"schedule": order}, backend="flow").step_time_s
        self.assertEqual(found, panpipe.simulate(SCENARIO, set={"schedule": "1f1b"}, backend="flow").step_time_s)

    def test_in_a_dict(self):
        scenario = {
            "panpipe": 1,
            "cluster": "clusters/rtx3090x8.yaml",
            "workload": {"model": "gpt2-large", "sequence": 1024},
            "batch": {"micro": 1, "microbatches": 16},
            "precision": "fp16",
            "parallel": {"pipeline": 4, "data": 2},
            "schedule": one_f_one_b,
        }
        step = panpipe.estimate(scenario)
        self.assertEqual(step.step_time_s, panpipe.estimate({**scenario, "schedule": "1f1b"}).step_time_s)
        self.assertIn("one_f_one_b", step.to_text())
        # set= goes before the scenario's own.
        self.assertEqual(panpipe.estimate(scenario, set={"schedule": "1f1b"}).metrics["step_time_s"], step.step_time_s)

    def test_what_was_understood_loads_again(self):
        file = self.written("checked.yaml", panpipe.check(SCENARIO, set={"schedule": one_f_one_b}).text)
        self.assertEqual(panpipe.estimate(file).step_time_s, panpipe.estimate(SCENARIO, set={"schedule": "1f1b"}).step_time_s)

    def test_other_sizes(self):
        error = refusal(panpipe.estimate, SCENARIO, set={"schedule": one_f_one_b(4, 8)})
        self.assertEqual(
            str(error).split("\n")[:2],
            [
                'set schedule={"name": "one_f_one_b", "csv":...3B3,3F4,3B4,3F5,3B5,3F6,3B6,3F7,3B7"]}: error: '
                "schedule 'one_f_one_b' is for 4 ranks, but parallel.pipeline is 8",
                "  at schedule",
            ],
        )

    def test_a_function_that_fails(self):
        @panpipe.schedule
        def refuses(rank, ranks):
            raise ValueError(f"only for 4 ranks, not {ranks}") if ranks != 4 else None
            yield

        error = refusal(panpipe.estimate, SCENARIO, set={"schedule": refuses})
        self.assertIn("refuses of 8 ranks and 8 microbatches: raises ValueError: only for 4 ranks, not 8", str(error))


class InSweeps(unittest.TestCase):
    def test_orders_of_each_cell(self):
        study = panpipe.sweep(SCENARIO, {"schedule": ["1f1b", one_f_one_b], "batch.micro": [1, 2]})
        columns = study.table.to_pydict()
        self.assertEqual(columns["schedule"], ["1f1b", "1f1b", "one_f_one_b", "one_f_one_b"])
        self.assertEqual(columns["step_time_s"][:2], columns["step_time_s"][2:])

    def test_a_fixed_schedule_over_sizes(self):
        over = {"parallel.pipeline": [2, 4, 8]}
        mine = panpipe.sweep(SCENARIO, over, set={"schedule": one_f_one_b, "parallel.data": 1})
        shipped = panpipe.sweep(SCENARIO, over, set={"schedule": "1f1b", "parallel.data": 1})
        self.assertEqual(mine.table.to_pydict()["step_time_s"], shipped.table.to_pydict()["step_time_s"])

    def test_a_cell_without_an_order(self):
        @panpipe.schedule
        def even(rank, ranks, microbatches):
            if microbatches % 3:
                raise ValueError("microbatches in threes")
            yield from one_f_one_b.__wrapped__(rank, ranks, microbatches)

        study = panpipe.sweep(
            SCENARIO, {"schedule": [even], "batch": ["{micro: 1, microbatches: 8}", "{micro: 1, microbatches: 9}"]}
        )
        self.assertEqual([cell["status"] for cell in study.cells], ["refused", "fits"])
        self.assertIn("raises ValueError: microbatches in threes", study.cells[0]["reason"])

    def test_in_other_processes(self):
        with concurrent.futures.ProcessPoolExecutor(1) as pool:
            study = panpipe.sweep(SCENARIO, {"schedule": [one_f_one_b, "zb-h1"]}, executor=pool)
        self.assertEqual([cell["status"] for cell in study.cells], ["fits", "fits"])

    def test_two_of_one_name(self):
        self.assertEqual(
            str(refusal(panpipe.sweep, SCENARIO, {"schedule": [one_f_one_b, one_f_one_b(8, 8)]})),
            "two orders of the sweep are called one_f_one_b\n  help: give one another name: @panpipe.schedule(name=...)",
        )


if __name__ == "__main__":
    unittest.main()
