"""Calls about schedules whose arguments contradict each other or mean nothing: each is an InputError, or acts on all of them."""

import copy
import functools
import os
import pickle
import signal
import unittest

import panpipe
from asked import SMALL, Cases, refusal
from panpipe.actions import B, F

try:
    import numpy
except ImportError:
    numpy = None


def of_all_ranks(ranks, microbatches, stages_per_rank=1):
    for rank in range(ranks):
        yield from ((rank, F(m)) for m in range(microbatches))
        yield from ((rank, B(m)) for m in range(microbatches))


@panpipe.schedule
def all_forwards(rank, microbatches, late=False):
    yield from (F(m) for m in range(microbatches))
    for m in reversed(range(microbatches)) if late else range(microbatches):
        yield B(m)


def made(**changes):
    """A family whose passes are given by functions of the microbatch."""

    def family(rank, ranks, microbatches):
        for kind, default in (("forward", F), ("backward", B)):
            yield from (changes.get(kind, default)(m) for m in range(microbatches))

    return panpipe.schedule(family)


class Calls(Cases):
    def test_arena(self):
        whole = "a whole number from 1 to 2147483647 is wanted, not 0"
        cases = (
            (lambda: panpipe.arena(all_forwards, ranks=0), "ranks: " + whole),
            (lambda: panpipe.arena("1f1b", microbatches=0), "microbatches: " + whole),
            (lambda: panpipe.arena("1f1b", ranks=2.5), "ranks: a whole number is wanted, not a float"),
            (lambda: panpipe.arena("1f1b", threads=-3), "threads: a whole number from 1 to 2147483647 is wanted, not -3"),
            (
                lambda: panpipe.arena("1f1b", cost_ratios=(10, 12, 8)),
                "cost_ratios: a list of ratios is wanted, not of single values such as 10\n  help: cost_ratios=[(10, 12, 8)]",
            ),
            (
                lambda: panpipe.arena("1f1b", cost_ratios=[(10, 12)]),
                "cost_ratios: there is no '10:12'; there are even, 8k, 32k, 8k-recompute, 8k-lora, 8k-vocabulary\n"
                "  help: or three numbers, F:I:W, as in 10:12:8",
            ),
            (lambda: panpipe.arena("1f1b", cost_ratios=[{"F": 1, "B": 2}]), "cost_ratios: a ratio has F, I and W, not F, B"),
            (
                lambda: panpipe.arena([all_forwards]),
                "entrants: a family's name, a file, a Schedule or a family of one's own is wanted, not a list\n  help: they are given one by one: panpipe.arena(mine, other)",
            ),
            (
                lambda: panpipe.arena(of_all_ranks),
                "entrants: a family's name, a file, a Schedule or a family of one's own is wanted, not a function\n  help: panpipe.schedule(function) makes a family of a function",
            ),
            (
                lambda: panpipe.arena(all_forwards, all_forwards),
                "entrants: two are called all_forwards\n  help: give one another name: @panpipe.schedule(name=...)",
            ),
            (
                lambda: panpipe.arena(all_forwards, ranks=16, alone=True, clusters=["h100x8"]),
                "error: cluster h100x8 has 8 devices, too few for 16 ranks\n  help: a cluster file with more nodes has more; 'none' leaves clusters out",
            ),
        )
        self.refused(cases)

    def test_ratios(self):
        """As text, numbers and a dict, to the last digit: F + I + W of 8 microbatches, and three ranks' F and B of 1F1B."""
        asked = ["1:1.23456789:1", (1, 1.23456789, 1), {"F": 2, "I": 2.46913578, "W": 2}]
        steps = panpipe.arena("1f1b", cost_ratios=asked, clusters=(), alone=True).table.to_pydict()["makespan"]
        for step in steps:
            self.assertAlmostEqual(step, 11 * 3.23456789, places=9)
        self.assertEqual(len(panpipe.arena("1f1b", cost_ratios="8k", clusters="none", alone=True).table), 1)

    def test_families(self):
        known = panpipe.schedule(all_forwards, ranks=2, microbatches=3)
        self.assertEqual(known.to_csv(), all_forwards(2, 3).to_csv())
        given = panpipe.schedule(of_all_ranks, name="mine", placement="wave", stages_per_rank=1)
        self.assertEqual((given.name, given(2, 3).makespan), ("mine", all_forwards(2, 3).makespan))
        again = "all_forwards is a family already\n  help: call it with its sizes, or give it other defaults by with_options(...)"
        self.assertTrue(all_forwards(2, 2, deadline_s="5").legal)
        cases = (
            (lambda: panpipe.schedule(name="other")(all_forwards), again),
            (lambda: panpipe.schedule(all_forwards), again),
            (lambda: panpipe.schedule(name=7)(of_all_ranks), "name: text is wanted, not a int"),
            (lambda: all_forwards(2, 2, deadline_s="five"), "all_forwards: deadline_s: a number is wanted, not 'five'"),
            (lambda: all_forwards(2, 2, deadline_s=float("inf")), "all_forwards: deadline_s: a finite number is wanted, not inf"),
            (lambda: all_forwards(2, 2, deadline_s=0), "all_forwards: deadline_s: seconds above 0 are wanted, not 0"),
            (lambda: all_forwards(2, 2, memory_bytes="1GiB"), "all_forwards: memory_bytes: a whole number is wanted, not a str"),
            (
                lambda: all_forwards(2, 2, memory_bytes=10**30),
                f"all_forwards: memory_bytes: a whole number from 1 to {2**62} is wanted, not {10**30}",
            ),
            (
                lambda: panpipe.estimate(SMALL, set={"schedule": {"name": all_forwards, "late": True}}),
                "schedule.name: a OwnFamily is no value of a scenario; give a number, text, a list or a dict\n"
                "  help: a family takes its options by with_options(stages_per_rank=2)",
            ),
        )
        self.refused(cases)

    def test_other_arguments(self):
        order = panpipe.schedule("1f1b", ranks=2, microbatches=2)
        cases = (
            (lambda: order.to_text(width="a"), "width: a whole number is wanted, not a str"),
            (
                lambda: panpipe.simulate(SMALL, merge="no"),
                "merge: True or False is wanted, not 'no'",
            ),
            (
                lambda: panpipe.sweep(SMALL, {"schedule": ["1f1b"]}, executor=3),
                "executor: an executor as of concurrent.futures is wanted, with submit(), not a int",
            ),
        )
        self.refused(cases)

    def test_numbers_of_passes(self):
        for family, part in (
            (made(forward=lambda m: F(m / 2)), "rank 0 yields F(0.0): the microbatch is a whole number, not 0.0"),
            (made(forward=lambda m: F(bool(m))), "rank 0 yields F(False): the microbatch is a whole number, not False"),
            (made(backward=lambda m: B(m, stage=0.0)), "rank 0 yields B(0, stage=0.0): the stage is a whole number, not 0.0"),
        ):
            with self.subTest(part):
                self.assertIn(part, str(refusal(family, 1, 2)))
        uncut = made(forward=lambda m: F(m, part=0), backward=lambda m: B(m, part=0))
        self.assertEqual(uncut(2, 3).to_csv(), all_forwards(2, 3).to_csv())  # one slice is the whole

    @unittest.skipIf(numpy is None, "NumPy is not installed for this Python")
    def test_numbers_of_numpy(self):
        def numbered(ranks, microbatches, weights=numpy.ones(2)):
            for rank in numpy.arange(ranks):
                yield from ((rank, F(m)) for m in numpy.arange(microbatches))
                yield from ((rank, B(m)) for m in numpy.arange(microbatches))

        family = panpipe.schedule(numbered, placement=lambda stage, ranks: numpy.int64(stage % ranks))
        costs = {"F": numpy.array([1.0, 2.0]), "I": numpy.float32(1)}
        self.assertEqual(family(2, 3, costs).makespan, all_forwards(2, 3, {"F": [1, 2], "I": 1}).makespan)

    def test_callables_without_a_name(self):
        self.assertTrue(panpipe.schedule(functools.partial(of_all_ranks, stages_per_rank=1))(2, 2).legal)

    def test_where_a_function_fails(self):
        def fails(rank, microbatches):
            yield F(0)
            yield F(microbatches)

        fault = refusal(panpipe.schedule(fails), 2, 2).diagnostics[0]
        self.assertEqual((os.path.basename(fault.file), fault.line), ("mistakes_test.py", fails.__code__.co_firstlineno + 2))
        self.assertIn("microbatch 2 of 2", fault.message)


class Copies(unittest.TestCase):
    def test_of_searched_orders(self):
        for name, options in (("v-half", {}), ("zb-auto", {}), ("stp", {"braid": "split"}), ("1f1b", {})):
            one = panpipe.schedule(name, ranks=4, microbatches=12, costs={"F": 10, "I": 12, "W": 8}, **options)
            for other in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
                self.assertEqual(other.to_dict(), one.to_dict(), name)
                self.assertEqual(other.lower_bound, one.lower_bound, name)

    def test_of_families(self):
        late = all_forwards.with_options(late=True)
        for one in (all_forwards, late):
            other = pickle.loads(pickle.dumps(one))
            self.assertEqual((other.name, other.options, other(2, 3).to_csv()), (one.name, one.options, one(2, 3).to_csv()))
        self.assertIs(pickle.loads(pickle.dumps(all_forwards)), all_forwards)
        self.assertEqual(late.with_options(late=False).name, "all_forwards")
        self.assertEqual(late(2, 3).name, "all_forwards late=True")
        with self.assertRaises((pickle.PicklingError, AttributeError)):
            pickle.dumps(made())


class Surroundings(unittest.TestCase):
    def test_many_open_files(self):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < 1200:
            self.skipTest(f"a process may open {hard} files here")
        resource.setrlimit(resource.RLIMIT_NOFILE, (1200, hard))
        files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
        try:
            self.assertTrue(all_forwards(2, 2).legal)
        finally:
            for file in files:
                os.close(file)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def test_children_that_nobody_waits_for(self):
        before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        try:
            self.assertTrue(all_forwards(2, 2).legal)
        finally:
            signal.signal(signal.SIGCHLD, before)


if __name__ == "__main__":
    unittest.main()
