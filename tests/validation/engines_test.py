#!/usr/bin/env python3
"""The two engines on a few shipped clusters (validation/engines): a simulation is never shorter than its estimate, and equal to it
where no link is shared; where copies meet between sockets it is longer."""

import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "validation", "engines"))
import engines  # noqa: E402

PROGRAM = ""


class Engines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rows = engines.study(PROGRAM, ["dgx-a100-80g", "rtx3090x8-nobridge", "h20x8-x2"])

    def row(self, cluster, plan):
        return next(row for row in self.rows if (row["cluster"], row["plan"]) == (cluster, plan))

    def test_every_plan_is_predicted_by_both(self):
        self.assertGreaterEqual(len(self.rows), 20)
        self.assertEqual([row for row in self.rows if "skipped" in row], [])

    def test_never_shorter_and_equal_where_nothing_is_shared(self):
        self.assertEqual(list(engines.faults(self.rows)), [])

    def test_a_switch_of_its_own_for_each_pair_shares_nothing(self):
        for row in self.rows:
            if row["cluster"] == "dgx-a100-80g":
                self.assertEqual(row["links"], [], row["plan"])

    def test_copies_through_the_host_meet_in_the_processor(self):
        # Four replicas of two stages: all four hand over, forward and back, through the processors at the same time.
        row = self.row("rtx3090x8-nobridge", "many short pipelines")
        self.assertGreater(row["difference"], 0.005)
        self.assertIn(".relay", row["links"][0]["link"])
        self.assertEqual(row["links"][0]["flows"], 8)

    def test_sizes_are_read_through_files_that_name_others(self):
        self.assertEqual(engines.size_of("a100-80g-x64"), (8, 8))
        self.assertEqual(engines.size_of("rtx3090x8"), (1, 8))

    def test_faults_are_found(self):
        row = {"cluster": "c", "plan": "p", "difference": -1e-3, "links": [{}]}
        self.assertEqual(len(list(engines.faults([row]))), 1)
        self.assertEqual(len(list(engines.faults([{**row, "difference": 1e-3, "links": []}]))), 1)
        self.assertEqual(list(engines.faults([{**row, "difference": 1e-3}, {"skipped": "no"}])), [])


if __name__ == "__main__":
    PROGRAM = os.path.join(sys.argv.pop(1), "panpipe")
    unittest.main()
