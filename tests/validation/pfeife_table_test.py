#!/usr/bin/env python3
"""Pfeife's table of measured steps on RTX 3090 (validation/pfeife) holds within its limits, and what it rests on is needed."""

import os
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "validation", "pfeife"))
import table5  # noqa: E402

PROGRAM = ""


def predicted(cuts, *settings):
    try:
        return table5.summary(table5.judged(PROGRAM, settings, cuts))
    except SystemExit as error:
        if "SimGrid" in str(error):
            raise unittest.SkipTest("built without SimGrid") from error
        raise


class Table(unittest.TestCase):
    def test_published_numbers_are_carried_over_whole(self):
        rows = table5.published()
        self.assertEqual(len(rows), 15)
        self.assertEqual(sum(row["accepted"] for row in rows), 13)
        # The planner's own errors over the accepted rows: mean 6.5 %, largest 26.5 % (GPT-2 large on eight: 486 ms for 661).
        errors = [abs(row["estimated_ms"] / row["measured_ms"] - 1) for row in rows if row["accepted"]]
        self.assertAlmostEqual(sum(errors) / 13, 0.0649, delta=1e-4)
        self.assertAlmostEqual(max(errors), 0.2648, delta=1e-4)

    def test_accepted_rows_with_planned_cuts(self):
        summary = predicted("planned")
        # GELU in operators keeps its parts, as PyTorch measures: GPT-2 then needs 12 to 17 % more than this table has.
        self.assertLessEqual(summary["mean_error"], 0.034)
        self.assertLessEqual(abs(summary["bias"]), 0.02)
        self.assertLessEqual(summary["worst_error"], 0.17)
        self.assertLessEqual(summary["mean_memory_error"], 0.14)


class WhatItRestsOn(unittest.TestCase):
    """One thing changed for all rows: the table no longer comes out."""

    def test_every_rank_with_a_process_of_its_own(self):
        # Without the shared host GPT-2 large on eight devices is as far off as its planner thinks.
        shipped = os.path.join(ROOT, "scenarios", "calibrations", "rtx-3090-fp32.yaml")
        with tempfile.TemporaryDirectory() as folder:
            own = os.path.join(folder, "own-processes.yaml")
            with open(shipped, encoding="utf-8") as text, open(own, "w", encoding="utf-8") as changed:
                changed.writelines(line for line in text if not line.startswith("launch_contention:"))
            rows = table5.judged(PROGRAM, [f"cluster.device.calibration={own}"], "even")
        row = next(row for row in rows if row["model"] == "gpt2-large" and row["devices"] == 8 and row["accepted"])
        self.assertLess(row["error"], -0.08)

    def test_half_precision(self):
        self.assertGreater(predicted("even", "precision=fp16")["mean_error"], 0.2)


if __name__ == "__main__":
    PROGRAM = os.path.join(sys.argv.pop(1), "panpipe")
    unittest.main()
