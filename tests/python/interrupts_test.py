"""Ctrl-C, and any other signal whose handler raises, ends a long call soon; the next call is as if nothing had been."""

import os
import pathlib
import signal
import threading
import time
import unittest

import panpipe
from asked import RUNS, SMALL

WIDE = {
    "panpipe": 1,
    "cluster": {"file": "clusters/dgx-a100-80g.yaml", "nodes": 64},
    "workload": {"model": "gpt3-175b", "sequence": 2048},
    "batch": {"micro": 1, "microbatches": 512},
    "precision": "fp16",
    "parallel": {"pipeline": 16, "tensor": 8, "data": 4, "virtual_stages": 3},
    "schedule": "interleaved-1f1b",
    "recompute": "full",
    "framework": "megatron",
}
AUTO = {"parallel": {}, "schedule": "auto"}
SOON_S = 3.0  # about a second on a machine that does nothing else


class OutOfTime(Exception):
    pass


def out_of_time(*_):
    raise OutOfTime


class Interrupts(unittest.TestCase):
    def ends(self, call, after=0.3):
        """Sends SIGINT a while after the call began; how long it then took to end, seconds."""
        sent = []

        def send():
            time.sleep(after)
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=send)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            call()
            thread.join()  # a call that ended before the signal: then this is where it comes
            time.sleep(1)
        thread.join()
        return time.monotonic() - sent[0]

    def test_long_calls_end(self):
        calls = {
            "simulate, own solver": lambda: panpipe.simulate(WIDE, backend="flow", merge=False, fold=False),
            "plan": lambda: panpipe.plan("examples/llama-3-8b-h100.yaml", set=AUTO, gpus=[64, 128]),
            "sizes": lambda: panpipe.plan("examples/llama-3-8b-h100.yaml", set=AUTO, deadline="20h", tokens="100B"),
            "sweep": lambda: panpipe.sweep(WIDE, {"seed": range(500)}),
            "validate": lambda: panpipe.validate(RUNS),
        }
        if panpipe._core.fit_available():
            calls["fit"] = lambda: panpipe.fit(RUNS, "A100-80G-SXM")
        for name, call in calls.items():
            with self.subTest(name):
                self.assertLess(self.ends(call), SOON_S)
        self.assertTrue(panpipe.estimate(SMALL).fits)

    def test_the_process_that_simulates_ends_too(self):
        if not os.path.exists(os.path.join(os.environ["PANPIPE_BIN"], "panpipe_simgrid.so")):
            self.skipTest("this build has no SimGrid")
        self.assertLess(self.ends(lambda: panpipe.simulate(WIDE, merge=False, fold=False)), SOON_S)
        children = pathlib.Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
        if children.exists():
            self.assertEqual(children.read_text().split(), [])
        self.assertTrue(panpipe.simulate(SMALL).fits)

    def test_other_signals_raise_what_their_handlers_raise(self):
        old = signal.signal(signal.SIGALRM, out_of_time)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with self.assertRaises(OutOfTime):
                panpipe.validate(RUNS)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)

    def test_a_time_limit_gives_the_best_so_far(self):
        begin = time.monotonic()
        found = panpipe.plan(
            "examples/llama-3-8b-h100.yaml", set={**AUTO, "cluster": {"file": "clusters/h100x8.yaml", "nodes": 64}}, time_limit=1
        )
        self.assertLess(time.monotonic() - begin, 1 + 2 * SOON_S)
        if found.to_dict()["search"]["interrupted"]:
            self.assertFalse(found.proved_optimal)

    def test_another_process_goes_on_after_fork(self):
        step = panpipe.estimate(SMALL).step_time_s
        process = os.fork()
        if process == 0:
            same = panpipe.estimate(SMALL).step_time_s == step and panpipe.simulate(SMALL, backend="flow").fits
            os._exit(0 if same and len(panpipe.sweep(SMALL, {"batch.micro": [1, 2]}).cells) == 2 else 1)
        self.assertEqual(os.waitpid(process, 0)[1], 0)


if __name__ == "__main__":
    unittest.main()
