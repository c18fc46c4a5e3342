"""What stops a family of one's own that fails: its own fault with its line, time, memory, words that are no schedule."""

import concurrent.futures
import inspect
import os
import signal
import threading
import time
import unittest

import panpipe
from asked import Cases, one_f_one_b, refusal
from panpipe.actions import B, F, W


def line_of(function, behind):
    """The number of the line of a function with this text."""
    lines, first = inspect.getsourcelines(function)
    return first + next(index for index, line in enumerate(lines) if behind in line)


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


if __name__ == "__main__":
    unittest.main()
