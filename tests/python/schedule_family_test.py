"""Schedules of one's own: families that a Python function makes, what stops a function that fails, and orders in scenarios."""

import concurrent.futures
import os
import pickle
import signal
import threading
import time
import unittest

import panpipe
from asked import SMALL, Cases, refusal
from panpipe.actions import B, F, I, R, W

SCENARIO = SMALL  # 8 devices in a pipeline, 8 microbatches


@panpipe.schedule
def one_f_one_b(rank, ranks, microbatches):
    warmup = min(ranks - 1 - rank, microbatches)
    for m in range(warmup):
        yield F(m)
    for m in range(microbatches):
        if warmup + m < microbatches:
            yield F(warmup + m)
        yield B(m)


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


def line_of(function, behind):
    """The number of the line of a function with this text."""
    import inspect

    lines, first = inspect.getsourcelines(function)
    return first + next(index for index, line in enumerate(lines) if behind in line)


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


class Faults(Cases):
    """The whole message of each, and that no process stays."""

    def fails(self, function, message, at="", remedy="", **decoration):
        """`at`: the line of the function that is at fault."""
        place = at and f'\n  File "{__file__}", line {line_of(function, at)}, in {function.__name__}\n    {at}'
        whole = f"{function.__name__} of 2 ranks and 2 microbatches: {message}{place}" + (remedy and f"\n  help: {remedy}")
        self.assertEqual(str(refusal(panpipe.schedule(**decoration)(function), 2, 2)), whole)
        with self.assertRaises(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)

    def test_never_ends_without_yielding(self):
        def loops(rank):
            while True:
                rank += 1
            yield F(0)

        begin = time.monotonic()
        error = refusal(panpipe.schedule(loops), 2, 2, deadline_s=0.3)
        self.assertLess(time.monotonic() - begin, 5)
        first, file, _, help_ = str(error).split("\n")
        self.assertEqual(first, "loops of 2 ranks and 2 microbatches: is not done after 0.3 s")
        self.assertTrue(file.startswith(f'  File "{__file__}", line ') and file.endswith(", in loops"), file)
        self.assertEqual(help_, "  help: give it longer with deadline_s=")

    def test_never_returns_to_the_interpreter(self):
        def counts(rank):
            sum(range(10**14))
            yield F(0)

        self.fails(counts, "is not done after 0.2 s", remedy="give it longer with deadline_s=", deadline_s=0.2)

    def test_refuses_to_be_stopped(self):
        def stubborn(rank):
            while True:
                try:
                    while True:
                        rank += 1
                except BaseException:
                    pass
            yield F(0)

        self.fails(stubborn, "is not done after 0.2 s", remedy="give it longer with deadline_s=", deadline_s=0.2)

    def test_yields_for_ever(self):
        def again(rank):
            while True:
                yield F(0)

        def counting(rank):
            m = 0
            while True:
                yield F(m)
                m += 1

        def without_number(rank):
            while True:
                yield "OPT"

        twice = "rank 0 yields 0F0 twice, as action 0 and as action 1"
        self.fails(again, twice, "yield F(0)", "every stage runs every pass of a microbatch once")
        self.fails(counting, "rank 0 yields 0F2: microbatch 2 of 2: they are numbered from 0", "yield F(m)")
        more = "rank 0 yields more than 48 actions: 16 for each of its 1 x 2 stages and microbatches, and 16 besides, are more than any order has"
        self.fails(without_number, more, 'yield "OPT"')

    def test_raises(self):
        def divides(rank):
            yield F(0)
            yield F(1 // rank)

        raised = "raises ZeroDivisionError: integer division or modulo by zero"
        self.fails(divides, raised, "yield F(1 // rank)")

    def test_a_fault_in_a_part_has_its_line(self):
        def part():
            yield F(0)
            yield F(0)

        def all_of_it(rank):
            yield from part()

        self.fails(
            all_of_it,
            "rank 0 yields 0F0 twice, as action 0 and as action 1"
            f'\n  File "{__file__}", line {line_of(part, "yield F(0)") + 1}, in part\n    yield F(0)',
            remedy="every stage runs every pass of a microbatch once",
        )

    def test_eats_memory(self):
        def at_once(rank):
            yield [0] * 10**12

        def slowly(rank):
            kept = []
            while True:
                kept.append(bytearray(1 << 16))
            yield F(0)

        more = "give it more with memory_bytes="
        self.fails(at_once, "takes more than 1 GiB of memory", "yield [0] * 10**12", more)
        fault = "takes more than 64 MiB of memory"
        self.fails(slowly, fault, "kept.append(bytearray(1 << 16))", more, memory_bytes=64 << 20)

    def test_yields_nonsense(self):
        def number(rank):
            yield 3

        def text(rank):
            yield "0X1"

        def which_stage(rank):
            yield F(0)

        def not_its_stage(rank):
            yield F(0, stage=1)

        def halves(rank):
            yield from (F(0), B(0), W(0))

        def nothing(rank):
            pass

        def empty(rank):
            if rank == 0:
                yield F(0)

        def no_pair(ranks):
            yield F(0)

        for function, at, message, remedy in (
            (
                number,
                "yield 3",
                "rank 0 yields 3, which is no action",
                "yield F(0), or a cell of the CSV as text, such as '2F0'; from panpipe.actions import F, I, W, B, R",
            ),
            (
                text,
                'yield "0X1"',
                "rank 0 yields '0X1': unknown action 'X'",
                "actions are F, I, W, B, R, SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD, REDUCE_GRAD, OFFLOAD, RELOAD, OPT, SYNC, E, S, T, G",
            ),
            (
                not_its_stage,
                "yield F(0, stage=1)",
                "rank 0 yields 1F0: stage 1 is on rank 1, and this rank has [0]",
                "the parameter `stages` of the function lists the stages of its rank; placement= says where stages are",
            ),
            (
                halves,
                "yield from (F(0), B(0), W(0))",
                "rank 0 yields 0W0 behind the B of the same microbatch",
                "B is the whole backward, I and W are its halves: yield the one or the two",
            ),
            (nothing, "", "returns None", "nothing yields its actions: yield F(0)"),
            (empty, "", "rank 1 yields nothing", "every rank has a stage, and every stage its passes"),
            (
                no_pair,
                "yield F(0)",
                "yields F(0) in place of a rank and its action",
                "yield rank, F(0), with ranks from 0 to 1; or take a parameter `rank`, and yield that rank's actions",
            ),
        ):
            self.fails(function, message, at, remedy)
        unclear = "rank 0 yields F(0) and has the stages [0, 2]"
        self.fails(which_stage, unclear, "yield F(0)", "say which: F(0, stage=2)", stages_per_rank=2)

    def test_ends_its_process(self):
        def killed(rank):
            os.kill(os.getpid(), signal.SIGKILL)
            yield F(0)

        def leaves(rank):
            os._exit(3)
            yield F(0)

        self.fails(killed, "ends its process, with SIGKILL")
        self.fails(leaves, "ends its process, with exit code 3")

    def test_leaves_no_process_of_its_own(self):
        def starts_another(rank):
            if os.fork() == 0:
                time.sleep(60)
            raise ValueError("it is left behind")
            yield F(0)

        with self.assertRaises(panpipe.InputError):
            panpipe.schedule(starts_another)(1, 1)
        with open("/proc/self/task/%d/children" % threading.get_native_id(), encoding="ascii") as children:
            self.assertEqual(children.read(), "")

    def test_decorations(self):
        cases = (
            (
                lambda: panpipe.schedule(lambda rank, group: None),
                "<lambda>: the parameter 'group' has no default\n  help: rank, ranks, microbatches, stages, costs are filled in; any other is an option of the family: group=1",
            ),
            (
                lambda: panpipe.schedule(lambda *all: None),
                "<lambda>: the parameter 'all' has no name to give it by: options are parameters with defaults",
            ),
            (
                lambda: panpipe.schedule(placement="spiral")(lambda rank: None),
                "<lambda>: placement is 'loop', 'wave' or a function of (stage, ranks), not 'spiral'",
            ),
            (
                lambda: panpipe.schedule(name="1f1b")(lambda rank: None),
                '1f1b is a family of Panpipe\'s\n  help: give this one another name: @panpipe.schedule(name="my-1f1b")',
            ),
            (
                lambda: panpipe.schedule(ranks=4),
                'ranks is of a call, which names its schedule first: panpipe.schedule("1f1b", ranks=4, microbatches=8)',
            ),
            (
                lambda: panpipe.schedule(grupe=2)(lambda rank, group=1: None),
                "<lambda> has no option 'grupe', did you mean 'group'?",
            ),
            (lambda: one_f_one_b(0, 4), "one_f_one_b: ranks: a whole number from 1 to 2147483647 is wanted, not 0"),
            (lambda: one_f_one_b(4, 1.5), "one_f_one_b: microbatches: a whole number is wanted, not a float"),
            (
                lambda: one_f_one_b(4, 10**8),
                "one_f_one_b: 4 ranks x 1 stages x 100000000 microbatches are more than 6e+06 forwards",
            ),
        )
        self.refused(cases)

    def test_beside_threads(self):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            made = list(pool.map(lambda ranks: one_f_one_b(ranks, 8).makespan, [1, 2, 3, 4] * 4))
        self.assertEqual(made, [24.0, 27.0, 30.0, 33.0] * 4)  # 3 x (8 + P - 1)


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
