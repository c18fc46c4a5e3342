"""Whatever is given: an answer, or an InputError that names the argument or key. Nothing else comes out, and nothing crashes."""

import copy
import enum
import math
import pathlib
import pickle
import unittest

import panpipe
from asked import DICT, RUNS, SMALL, refusal


class Name(str, enum.Enum):
    GPIPE = "gpipe"


def fault(call, *arguments, **named):
    first = refusal(call, *arguments, **named).diagnostics[0]
    return first.key, first.message


def with_micro(value):
    return {**DICT, "batch": {"micro": value, "microbatches": 8}}


class Values(unittest.TestCase):
    def test_what_no_microbatch_is(self):
        numbers, texts = (math.nan, -math.inf, 10**400, -1, 2.5, 1j, True), (b"4", "\ud800", "a\0b", "1\n2")
        for value in (*numbers, *texts, None, (1, 2), [1], {1}, {"a": 1}, object()):
            with self.subTest(repr(value)[:30]):
                self.assertEqual(fault(panpipe.estimate, with_micro(value))[0], "batch.micro")
                fault(panpipe.estimate, DICT, set={"batch.micro": value})
        self.assertEqual(fault(panpipe.estimate, with_micro(math.nan)), ("batch.micro", "nan is no number of a scenario"))
        self.assertEqual(
            fault(panpipe.estimate, with_micro(1j))[1],
            "a complex is no value of a scenario; give a number, text, a list or a dict",
        )

    def test_keys_are_text(self):
        self.assertEqual(fault(panpipe.estimate, {**DICT, 3: 4}), ("", "a key is text, not 3"))
        self.assertEqual(fault(panpipe.estimate, {**DICT, "batch": {1: 2}}), ("batch", "a key is text, not 1"))
        self.assertEqual(fault(panpipe.estimate, DICT, set={None: 1}), ("set", "a key is text, not None"))

    def test_a_dict_that_holds_itself(self):
        inside = dict(DICT)
        inside["workload"] = inside
        self.assertEqual(fault(panpipe.estimate, inside), ("workload", "dicts and lists are nested more than 64 deep"))

    def test_what_means_the_same(self):
        same = panpipe.estimate(with_micro(4)).metrics
        self.assertEqual(panpipe.estimate(with_micro("4")).metrics, same)
        path = pathlib.Path("clusters/rtx3090x8.yaml")
        self.assertEqual(panpipe.estimate({**with_micro(4), "cluster": path}).metrics, same)
        self.assertEqual(
            panpipe.estimate(DICT, set={"schedule": Name.GPIPE}).metrics,
            panpipe.estimate(DICT, set={"schedule": "gpipe"}).metrics,
        )
        self.assertEqual(panpipe.estimate(DICT, plan=None).metrics, panpipe.estimate(DICT).metrics)
        stage_counts = [
            panpipe.check(DICT, set={"recompute": "none", "placement": kind(range(8))}).stages for kind in (list, tuple)
        ]
        self.assertEqual(stage_counts, [8, 8])

    def test_numpy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed for this Python")
        same = panpipe.estimate(with_micro(4)).metrics
        for value in (numpy.int64(4), numpy.array(4), numpy.str_("4")):
            self.assertEqual(panpipe.estimate(with_micro(value)).metrics, same)
            self.assertEqual(panpipe.estimate(DICT, set={"batch.micro": value}).metrics, same)
        swept = panpipe.sweep(DICT, {"batch.micro": numpy.array([2, 4])})
        self.assertEqual(swept.cells[1]["metrics"]["step_time_s"], same["step_time_s"])
        self.assertEqual(fault(panpipe.estimate, with_micro(numpy.float32(2.5)))[1], "'2.5' is not a whole number")


class Arguments(unittest.TestCase):
    def test_each_is_named(self):
        wrong = [
            ("scenario", panpipe.estimate, (None,), {}),
            ("scenario", panpipe.estimate, ([1],), {}),
            ("scenario", panpipe.estimate, ("\ud800",), {}),
            ("set", panpipe.estimate, (DICT,), {"set": ["a=1"]}),
            ("plan", panpipe.estimate, (DICT,), {"plan": 3}),
            ("backend", panpipe.simulate, (DICT,), {"backend": 3}),
            ("threads", panpipe.plan, (DICT,), {"threads": 0}),
            ("threads", panpipe.plan, (DICT,), {"threads": "2"}),
            ("candidates", panpipe.plan, (DICT,), {"candidates": 10**30}),
            ("time_limit", panpipe.plan, (DICT,), {"time_limit": math.nan}),
            ("gpus", panpipe.plan, (DICT,), {"gpus": 8}),
            ("deadline", panpipe.plan, (DICT,), {"deadline": 7}),
            ("batch.micro", panpipe.sweep, (SMALL, {"batch.micro": 4}), {}),
            ("batch.micro", panpipe.sweep, (SMALL, {"batch.micro": []}), {}),
            ("over", panpipe.sweep, (SMALL, {}), {}),
            ("over", panpipe.sweep, (SMALL, [("batch.micro", [1])]), {}),
            ("engine", panpipe.sweep, (SMALL, {"batch.micro": [1]}), {"engine": None}),
            ("runs", panpipe.validate, ([],), {}),
            ("runs", panpipe.fit, (3, "A100-80G-SXM"), {}),
            ("folds", panpipe.fit, (RUNS, "A100-80G-SXM"), {"folds": None}),
            ("ranks", panpipe.schedule, ("1f1b",), {"ranks": "4", "microbatches": 8}),
            ("costs", panpipe.schedule, ("1f1b",), {"ranks": 4, "microbatches": 8, "costs": 3}),
            ("kind", panpipe.shipped, (3,), {}),
            ("trainer", panpipe.import_job, (None, None), {}),
            ("define", panpipe.import_job, ("megatron", "x.sh"), {"define": ["TP=2"]}),
            ("define", panpipe.export, ("megatron", DICT), {"define": "TP=2"}),
            ("a", panpipe.compare, (3, 4), {}),
        ]
        for key, call, arguments, named in wrong:
            with self.subTest(f"{call.__name__} {arguments} {named}"):
                self.assertEqual(fault(call, *arguments, **named)[0], key)

    def test_messages_say_arguments_and_not_options(self):
        said = {
            "there is no figure 'mena', did you mean 'mean'?": lambda: panpipe.validate(RUNS, tolerances={"mena": "5%"}),
            "no row has the id or source 'nobody'": lambda: panpipe.validate(RUNS, without="nobody"),
            "there is no 'stepp', did you mean 'step'?": lambda: panpipe.plan(SMALL, objective="stepp"),
            "the method auto plans for a trainer, pfeife does not": lambda: panpipe.plan(
                SMALL, trainer="megatron", method="pfeife"
            ),
            "there is no trainer 'megatrn', did you mean 'megatron'?": lambda: panpipe.plan(SMALL, trainer="megatrn"),
            "'7' has no unit; write '7 h' or '7 d'": lambda: panpipe.plan(SMALL, deadline="7", tokens="1B"),
            "there is no list of 'modls', did you mean 'models'?": lambda: panpipe.shipped("modls"),
            "there is no trainer 'nanotrn', did you mean 'nanotron'?": lambda: panpipe.import_job("nanotrn", "x"),
            "there is no 'simgird', did you mean 'simgrid'?": lambda: panpipe.simulate(DICT, backend="simgird"),
        }
        for message, call in said.items():
            with self.subTest(message):
                found = fault(call)[1]
                self.assertTrue(found.endswith(message), found)
                self.assertNotIn("--", found)

    def test_what_a_callback_raises_comes_out(self):
        with self.assertRaises(ZeroDivisionError):
            panpipe.sweep(SMALL, {"batch.micro": [1, 2]}, progress=lambda done, cells: 1 / 0)


class Copies(unittest.TestCase):
    def test_results_are_copied(self):
        step = panpipe.estimate(SMALL)
        for other in (copy.copy(step), copy.deepcopy(step), pickle.loads(pickle.dumps(step))):
            self.assertEqual(other.metrics, step.metrics)
        plan = panpipe.plan(SMALL, method="pfeife", threads=1, candidates=1)
        self.assertEqual(pickle.loads(pickle.dumps(plan)), plan)
        with self.assertRaises(AttributeError):
            plan.yaml = ""

    def test_errors_are_copied(self):
        for error in (panpipe.NoAnswer("x"), panpipe.MachineError("x"), panpipe.InternalError("x"), panpipe.InputError("x")):
            other = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(other), str(other)), (type(error), "x"))


if __name__ == "__main__":
    unittest.main()
