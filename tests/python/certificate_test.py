"""Certificates: closed forms, orders that anyone can follow, own bounds and families compared with CP-SAT's proofs, bad input."""

import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import panpipe

try:
    import ortools.sat.python.cp_model  # noqa: F401

    WHY_NOT = ""
except ImportError as error:
    WHY_NOT = f"OR-Tools does not load for this Python: {error}"

EVEN, LONG = {"F": 1, "I": 1, "W": 1}, {"F": "0.25", "I": "0.39275", "W": "0.15475"}


def order(text, **costs):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "order.csv"
        file.write_text(text)
        return panpipe.schedule(file, costs=costs)


def words_of(function, *rest, **named):
    try:
        function(*rest, **named)
    except panpipe.PanpipeError as error:
        return type(error).__name__, str(error)
    return "no error", ""


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Proofs(unittest.TestCase):
    def proved(self, schedule, **more):
        certificate = panpipe.certify(schedule, seconds=60, **more)
        self.assertTrue(certificate.optimal, certificate)
        self.assertEqual(certificate.bound, certificate.makespan)
        self.assertTrue(certificate.order.legal)
        self.assertAlmostEqual(certificate.order.makespan, certificate.makespan, places=9)
        self.assertLessEqual(max(certificate.order.peak_activations), certificate.memory)
        return certificate

    def test_closed_form_of_zb_h1(self):
        # With F = I = W and P activations no order of a line is shorter than m (F + I + W) + (p - 1)(F + I - W) = 3m + p - 1.
        for ranks, microbatches in ((2, 3), (2, 4), (3, 4), (4, 4), (3, 7)):
            found = self.proved(panpipe.schedule("zb-h1", ranks=ranks, microbatches=microbatches))
            self.assertEqual(found.makespan, 3 * microbatches + ranks - 1)
            self.assertEqual(found.memory, ranks)

    def test_one_microbatch_is_its_way(self):
        # Down and up a line of 3: 3 F, 3 I, W of the first stage, and four hops.
        found = self.proved(panpipe.schedule("gpipe", ranks=3, microbatches=1, costs={"F": 10, "I": 12, "W": 8, "comm": 1.5}))
        self.assertEqual(found.makespan, 3 * 10 + 3 * 12 + 8 + 4 * 1.5)

    def test_memory_binds(self):
        # One activation a rank: nothing overlaps. Each microbatch goes down and up, 2 F + 2 I, and W of rank 0 ends before the
        # next forward starts there; rank 1 does its W meanwhile: m (2 F + 2 I + W).
        one = self.proved(order("0F0,0B0,0F1,0B1\n1F0,1B0,1F1,1B1\n"), memory=1)
        self.assertEqual(one.makespan, 2 * 5)
        made = panpipe.schedule("gpipe", ranks=2, microbatches=4)
        times = [self.proved(made, memory=memory).makespan for memory in (1, 2, 3, 4)]
        self.assertEqual(times, sorted(times, reverse=True))
        self.assertEqual((times[0], times[-1]), (20, 13))  # 13 = 4 x 3 + 1: rank 1 waits for the first forward

    def test_never_below_the_own_bound_nor_above_a_family(self):
        for ranks, microbatches in ((2, 4), (3, 4), (4, 4)):
            for costs in (EVEN, LONG):
                line = self.proved(panpipe.schedule("zb-auto", ranks=ranks, microbatches=microbatches, costs=costs))
                self.compared(line, ranks, microbatches, costs, ("1f1b", "zb-h1", "zb-auto"), "zb-auto")
                if ranks == 2:  # three take minutes
                    v = self.proved(panpipe.schedule("v-auto", ranks=ranks, microbatches=microbatches, costs=costs))
                    self.compared(v, ranks, microbatches, costs, ("1f1b-v", "zb-v", "v-min", "v-half", "v-auto"), "v-auto")

    def compared(self, certificate, ranks, microbatches, costs, families, searched):
        own = panpipe.schedule(searched, ranks=ranks, microbatches=microbatches, costs=costs, memory=certificate.memory)
        self.assertGreaterEqual(certificate.makespan, own.lower_bound - 1e-9)
        for family in families:
            made = panpipe.schedule(family, ranks=ranks, microbatches=microbatches, costs=costs)
            if max(made.peak_activations) <= certificate.memory:
                self.assertLessEqual(certificate.makespan, made.makespan + 1e-9, family)

    def test_recompute(self):
        # One activation a rank: made again, rank 0 has no waits but its own work of m (F + R + I + W); kept, m (2 F + 2 I + W).
        kept = self.proved(panpipe.schedule("zb-auto", ranks=2, microbatches=3, memory=1))
        self.assertEqual(kept.makespan, 15)
        again = self.proved(panpipe.schedule("auto-memory", ranks=2, microbatches=3, memory=1, base="zb-auto"))
        self.assertEqual(again.makespan, 12)
        for ranks, microbatches, memory in ((2, 4, 1), (3, 4, 2), (3, 5, 2)):
            own = panpipe.schedule("auto-memory", ranks=ranks, microbatches=microbatches, memory=memory, base="zb-auto")
            found = self.proved(own, memory=memory, recompute=True)
            self.assertGreaterEqual(found.bound, own.lower_bound - 1e-9)
            self.assertEqual(own.makespan, found.makespan)  # the search finds the shortest

    def test_the_same_answer_again(self):
        asked = panpipe.schedule("v-half", ranks=2, microbatches=4, costs=LONG)
        first, second = self.proved(asked), self.proved(asked)
        self.assertEqual(first.order.to_csv(), second.order.to_csv())

    def test_time_that_is_too_short(self):
        asked = panpipe.schedule("hanayo", ranks=4, microbatches=8, stages_per_rank=4)
        found = panpipe.certify(asked, seconds=0.5)
        self.assertFalse(found.optimal)
        self.assertLess(found.seconds, 20)
        if found.makespan is not None:
            self.assertLessEqual(found.bound, found.makespan)
            self.assertRegex(str(found), r"^between \S+ and \S+ after ")
        else:
            self.assertRegex(str(found), r"^at least \S+; no order found in ")


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Interrupts(unittest.TestCase):
    def interrupted(self, program):
        """How a program ends that is interrupted one second after it prints that it starts, and its output."""
        with subprocess.Popen(
            [sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as child:
            self.assertEqual(child.stdout.readline(), "ready\n")
            time.sleep(1)
            child.send_signal(signal.SIGINT)
            said, _ = child.communicate(timeout=60)
        return child.returncode, said

    def test_while_it_searches(self):
        program = (
            "import panpipe\n"
            "order = panpipe.schedule('v-min', ranks=4, microbatches=16, costs={'F': 10, 'I': 12, 'W': 8})\n"
            "print('ready')\n"
            "try:\n    panpipe.certify(order, seconds=50)\nexcept KeyboardInterrupt:\n    print('stopped')\n"
        )
        self.assertEqual(self.interrupted(program), (0, "stopped\n"))

    def test_afterwards(self):
        program = (
            "import panpipe, time\n"
            "panpipe.certify(panpipe.schedule('1f1b', ranks=2, microbatches=2), seconds=5)\n"
            "print('ready')\n"
            "try:\n    time.sleep(30)\nexcept KeyboardInterrupt:\n    print('stopped')\n"
        )
        self.assertEqual(self.interrupted(program), (0, "stopped\n"))


class BadInput(unittest.TestCase):
    """Said before OR-Tools is looked for."""

    def test_what_is_refused(self):
        line = panpipe.schedule("1f1b", ranks=2, microbatches=2)
        chains = "a certificate is about one chain of whole microbatches; {} has two chains, or slices of sequences"
        for asked, named, words in (
            (panpipe.schedule("dualpipe", ranks=2, microbatches=4), {}, chains.format("dualpipe")),
            (panpipe.schedule("seq-1f1b", ranks=2, microbatches=4), {}, chains.format("seq-1f1b")),
            (
                panpipe.schedule("1f1b", ranks=8, microbatches=1000),
                {},
                "24000 passes are too many for a certificate: at most 20000",
            ),
            (
                panpipe.schedule("zb-v", ranks=2, microbatches=2),
                {"memory": 1},
                "a rank holds an activation of each of its 2 stages before the first gradient: memory is at least 2, not 1",
            ),
            (line, {"memory": 0}, "memory: a whole number from 1 to 2147483647 is wanted, not 0"),
            (line, {"memory": 1.5}, "memory: a whole number is wanted, not a float"),
            (line, {"seconds": "5s"}, "seconds: a number is wanted, not '5s'"),
            ("zb-h1", {}, 'schedule: a Schedule is wanted, not a str\n  help: panpipe.schedule("1f1b", ranks=2, microbatches=4)'),
            (
                panpipe.schedule("1f1b", ranks=4, microbatches=8, offload="full"),
                {},
                "a certificate is about orders whose activations stay on the device; 1f1b offloads",
            ),
            (line, {"seconds": 0}, "seconds: seconds above 0 are wanted, not 0"),
            (line, {"threads": 0}, "threads: a whole number from 1 to 2147483647 is wanted, not 0"),
            (
                panpipe.schedule("1f1b", ranks=2, microbatches=2, costs={"W": 0}),
                {},
                "a certificate needs costs above 0 for F, I and W\n  help: a small number, such as 0.001, in place of 0",
            ),
            (
                panpipe.schedule("1f1b", ranks=2, microbatches=2, costs={"B": 1.5}),
                {},
                "a certificate is about orders whose backward takes as long as I and W together\n  help: leave B out of the costs",
            ),
            (
                panpipe.schedule("1f1b", ranks=2, microbatches=2, costs={"F": "1.0000000000001", "I": "0.3333333333333"}),
                {},
                "the costs have too many digits for a certificate\n  help: round them to six digits",
            ),
        ):
            with self.subTest(words):
                self.assertEqual(words_of(panpipe.certify, asked, **named), ("InputError", words))

    def test_an_order_that_cannot_finish(self):
        kind, words = words_of(panpipe.certify, order("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n"))
        self.assertEqual(kind, "NoAnswer")
        self.assertRegex(words, r"order\.csv is not legal: the order cannot finish: .* a cycle$")

    def test_without_or_tools(self):
        with mock.patch.dict(sys.modules, {"ortools.sat.python.cp_model": None}):
            kind, words = words_of(panpipe.certify, panpipe.schedule("1f1b", ranks=2, microbatches=2))
        self.assertEqual(kind, "MachineError")
        self.assertRegex(words, r"^a certificate needs OR-Tools, which does not load here: .*\n  help: pip install ortools$")


if __name__ == "__main__":
    unittest.main()
