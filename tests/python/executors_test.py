"""Sweeps and searches on workers of somebody else's: processes, and Dask's cluster on this machine."""

import concurrent.futures
import multiprocessing
import unittest

import panpipe
from asked import SMALL

OVER = {"schedule": ["1f1b", "zb-h1"], "batch.micro": [1, 2, 64]}
SIZES = {"set": {"parallel": {}, "schedule": "1f1b"}, "gpus": [8, 16]}


def without_clock(document):
    return {key: value for key, value in document.items() if key != "context"}


class Executors(unittest.TestCase):
    def setUp(self):
        self.here = panpipe.sweep(SMALL, OVER)

    def test_processes(self):
        progress = []
        # Started anew, as on another machine: nothing comes along but the work items.
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
            there = panpipe.sweep(SMALL, OVER, executor=pool, progress=lambda done, cells: progress.append((done, cells)))
            self.assertEqual(there.to_dict(), self.here.to_dict())
            self.assertEqual(progress, [(i + 1, 6) for i in range(6)])
            sizes = panpipe.plan("examples/llama-3-8b-h100.yaml", **SIZES, executor=pool)
            self.assertEqual(
                [plan.best.metrics for plan in sizes.plans.values()],
                [plan.best.metrics for plan in panpipe.plan("examples/llama-3-8b-h100.yaml", **SIZES).plans.values()],
            )
            step = pool.submit(panpipe.estimate, SMALL).result()
            self.assertEqual(step.metrics, panpipe.estimate(SMALL).metrics)
            with self.assertRaisesRegex(panpipe.InputError, "did you mean"):
                pool.submit(panpipe.estimate, SMALL, set={"parallel.tensr": 2}).result()

    def test_dask(self):
        try:
            from distributed import Client, LocalCluster
        except ImportError:
            self.skipTest("distributed is not installed for this Python")
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
            with client.get_executor() as pool:
                self.assertEqual(panpipe.sweep(SMALL, OVER, executor=pool).to_dict(), self.here.to_dict())

    def test_threads(self):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            self.assertEqual(panpipe.sweep(SMALL, OVER, executor=pool).to_dict(), self.here.to_dict())

    def test_one_search_is_one_piece_of_work(self):
        with concurrent.futures.ThreadPoolExecutor(1) as pool, self.assertRaisesRegex(panpipe.InputError, "one piece of work"):
            panpipe.plan(SMALL, executor=pool)


if __name__ == "__main__":
    unittest.main()
