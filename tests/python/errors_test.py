"""Faults as exceptions: kinds, places, remedies."""

import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import unittest

import panpipe
from asked import DICT, Cases
from asked import refusal as fault


class Faults(Cases):
    def test_a_dict_names_the_key(self):
        error = fault(panpipe.estimate, {**DICT, "parallel": {"tensr": 2}})
        self.assertIsInstance(error, ValueError)
        [found] = error.diagnostics
        self.assertEqual((found.file, found.line, found.key), ("scenario", 0, "parallel.tensr"))
        self.assertEqual((found.code, found.message), ("unknown-key", "unknown key 'tensr', did you mean 'tensor'?"))
        self.assertEqual(str(error), "scenario: error: unknown key 'tensr', did you mean 'tensor'?\n  at parallel.tensr")

    def test_a_list_in_a_dict_names_the_item(self):
        error = fault(panpipe.estimate, {**DICT, "partition": ["h.3", {"a": 1}]})
        self.assertEqual(error.diagnostics[0].key, "partition[1]")

    def test_a_file_has_line_and_column(self):
        text = "panpipe: 1\ncluster: clusters/rtx3090x8.yaml\nworkload: {model: gpt2-large}\nbatch: {micro: 0, microbatchs: 8}\n"
        file = self.written("mine.yaml", text)
        error = fault(panpipe.estimate, file)
        places = [(one.file, one.line, one.column) for one in error.diagnostics]
        self.assertEqual(places[0], (str(file), 4, 16))
        self.assertEqual(places[1][1], 4)
        self.assertIn("must be at least 1", error.diagnostics[0].message)
        self.assertIn("microbatches", error.diagnostics[1].message)

    def test_a_setting_names_itself(self):
        error = fault(panpipe.estimate, DICT, set={"batch.micro": -1})
        self.assertTrue(str(error).startswith("set batch.micro=-1: error: "), str(error))
        self.assertEqual((error.diagnostics[0].file, error.diagnostics[0].key), ("set", "batch.micro"))

    def test_a_remedy_stands_apart(self):
        error = fault(panpipe.estimate, DICT, set={"batch": {"micro": 2, "microbatches": 8, "global": 16}})
        found = [one for one in error.diagnostics if "exclude each other" in one.message][0]
        self.assertEqual(found.remedy, "keep one of the two: microbatches = global / (micro x data)")

    def test_what_is_no_scenario(self):
        self.assertEqual(str(fault(panpipe.estimate, 3)), "scenario: a scenario is a path or a dict, not a int")
        [found] = fault(panpipe.estimate, {**DICT, "seed": {1}}).diagnostics
        self.assertEqual(
            (found.key, found.message), ("seed", "a set is no value of a scenario; give a number, text, a list or a dict")
        )
        self.assertIn("no such file", str(fault(panpipe.estimate, "nowhere.yaml")).lower())

    def test_numbers_of_other_libraries(self):
        class Four:
            def __index__(self):
                return 4

        self.assertEqual(
            panpipe.estimate({**DICT, "batch": {"micro": Four(), "microbatches": 8}}).metrics,
            panpipe.estimate({**DICT, "batch": {"micro": 4, "microbatches": 8}}).metrics,
        )

    def test_names_that_do_not_exist(self):
        self.assertIn("did you mean 'zb-h1'", str(fault(panpipe.schedule, "zb-h11", ranks=4, microbatches=8)))
        self.assertIn(
            "stages_per_rank", str(fault(panpipe.schedule, "interleaved-1f1b", ranks=4, microbatches=8, stage_per_rank=2))
        )
        self.assertIn("needs both sizes", str(fault(panpipe.schedule, "1f1b", ranks=4)))
        self.assertIn("unknown key", str(fault(panpipe.sweep, DICT, {"batch.mikro": [1, 2]})))
        fault(panpipe.simulate, DICT, backend="simgird")
        fault(panpipe.plan, DICT, method="best")

    def test_an_order_that_cannot_finish_is_no_answer(self):
        file = self.written("stuck.csv", "0F0,0F1,0B0,0B1\n1B1,1F0,1F1,1B0\n")
        stuck = {"parallel": {"pipeline": 2}, "batch": {"micro": 1, "microbatches": 2}, "schedule": {"csv": str(file)}}
        with self.assertRaises((panpipe.NoAnswer, panpipe.InputError)):
            panpipe.estimate({**DICT, **stuck})

    def test_errors_travel(self):
        error = pickle.loads(pickle.dumps(fault(panpipe.estimate, {**DICT, "parallel": {"tensr": 2}})))
        self.assertEqual(error.diagnostics[0].key, "parallel.tensr")
        self.assertIn("did you mean", str(error))


class WithoutItsModule(Cases):
    def test_the_message_names_this_python_and_the_modules_that_are_there(self):
        package = pathlib.Path(panpipe.__file__).parent
        left_out = shutil.ignore_patterns("_core*.so", "_prefix", "__pycache__")
        shutil.copytree(package, self.folder / "panpipe", ignore=left_out)

        def said():
            environment = {**os.environ, "PYTHONPATH": str(self.folder)}
            call = [sys.executable, "-c", "import panpipe; panpipe.plan"]
            return subprocess.run(call, capture_output=True, text=True, env=environment, cwd=self.folder).stderr

        this = f"this is cpython {sys.version_info.major}.{sys.version_info.minor}, and the folder of panpipe has "
        self.assertIn(this + "no file _core*.so;", said())
        (self.folder / "panpipe/_core.cpython-37-x86_64-linux-gnu.so").touch()
        self.assertIn(this + "_core.cpython-37-x86_64-linux-gnu.so;", said())


if __name__ == "__main__":
    unittest.main()
