#!/usr/bin/env python3
"""STP's tables (validation/stp) hold within their limits, and what they rest on is needed: without it they do not hold."""

import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "validation", "stp"))
import multimodal  # noqa: E402
import offload  # noqa: E402
import scenarios  # noqa: E402
import study  # noqa: E402
from scenarios import PUBLISHED, SCHEDULES  # noqa: E402

PROGRAM = ""


class Tables(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.result = study.study(PROGRAM)

    def test_published_numbers_are_carried_over_whole(self):
        rows = list(study.rows())
        self.assertEqual(len(rows), 24)
        self.assertTrue(all(len(measured) == 3 for _, _, measured in rows))
        # Spot checks against table 6: the first and the last row, and the row of the largest gain, 12.2 %.
        self.assertEqual(rows[0][2], {"interleaved-1f1b": 9.52, "zb-v": 9.12, "stp": 9.87})
        self.assertEqual(rows[-1][2], {"interleaved-1f1b": 4.25, "zb-v": 4.29, "stp": 4.72})
        self.assertAlmostEqual(max(study.gain(measured) for _, _, measured in rows), 12.2, delta=0.05)

    def test_stp_wins_every_row(self):
        for row in self.result["rows"]:
            self.assertEqual(study.winner(row["published"]), "stp")
            self.assertEqual(study.winner(row["predicted"]), "stp", row)

    def test_means_over_rows(self):
        summary = self.result["summary"]
        self.assertLessEqual(summary["step_time"], 0.03)
        self.assertLessEqual(summary["step_time_worst"], 0.07)
        self.assertLessEqual(summary["gain_points"], 2.0)
        self.assertLessEqual(summary["memory"], 0.03)
        self.assertLessEqual(summary["memory_worst"], 0.05)


class Engines(unittest.TestCase):
    def test_agree_where_no_link_is_shared(self):
        try:
            difference = study.simulated(PROGRAM)
        except SystemExit as error:
            if "SimGrid" in str(error):
                self.skipTest("built without SimGrid")
            raise
        self.assertLess(difference, 0.001)


class WhatItRestsOn(unittest.TestCase):
    """One thing changed for all rows: the tables no longer come out."""

    def changed(self, **changes):
        return study.study(PROGRAM, **changes)["summary"]

    def test_fused_normalizations_are_too_fast(self):
        self.assertGreater(self.changed(framework="megatron")["step_time"], 0.10)

    def test_transfers_that_nobody_waits_for(self):
        summary = self.changed(transfers="{semantics: asynchronous}")
        self.assertTrue(summary["winners"] < 24 or summary["gain_points"] > 2)

    def test_braids_that_hide_nothing(self):
        rows = [(c, m, measured) for c, m, measured in study.rows() if m in (64, 96)]
        texts = [scenarios.scenario(c, "stp", m, schedule="{name: stp, braid: atomic}") for c, m, _ in rows]
        texts += [scenarios.scenario(c, "stp", m) for c, m, _ in rows]
        values = [scenarios.throughput(document) for document in scenarios.predict_all(PROGRAM, texts)]
        for (configuration, _, _), atomic, woven in zip(rows, values, values[len(rows) :]):
            # The published lead over 1F1B-I is 2.8 to 11.3 % in these rows; most of it is woven.
            self.assertGreater(woven / atomic, 1.02 if configuration["tensor"] == 4 else 1.05, configuration)


class Exposed(unittest.TestCase):
    """All-reduces that nothing hides, per layer and microbatch: the slope of the exposed time over m, transfers waited for by nobody.
    An all-reduce of 6144 x 5120 x 2 bytes over 8: 2 (7/8) 62.9 MB / (0.80 x 200 GB/s x (1 - 0.14 (2/8)^2)) + 100 us = 0.794 ms.
    """

    def test_is_what_table_1_counts(self):
        configuration = PUBLISHED["configurations"][3]  # 12.1B, TP8 PP2: 8, 8, 8, 6 layers; rank 1 has 16 of them
        slopes = {}
        for name in SCHEDULES:
            texts = [scenarios.scenario(configuration, name, m, transfers="{semantics: asynchronous}") for m in (64, 128)]
            few, many = (d["metrics"]["per_device"][8]["exposed_communication_s"] for d in scenarios.predict_all(PROGRAM, texts))
            slopes[name] = (many - few) / 64 / 16 / 0.794e-3
        # 2 forward, and backward what the attention half's column-parallel weight gradient (0.24 ms) leaves: (0.794 - 0.24) / 0.794.
        self.assertAlmostEqual(slopes["interleaved-1f1b"], 2.7, delta=0.3)
        # 2 forward and 2 backward; the last one of a pass of eight layers overlaps the next pass.
        self.assertAlmostEqual(slopes["zb-v"], 3.8, delta=0.3)
        # (2p + 1) / m in all; what remains is waiting for the other rank's braid.
        self.assertLess(slopes["stp"], 0.8)


class Multimodal(unittest.TestCase):
    def test_stp_wins_and_gains_most_where_the_paper_says(self):
        gains = {}
        for (model, tensor, pipeline, _), values in multimodal.study(PROGRAM):
            self.assertEqual(study.winner(values), "stp")
            gains[(model, tensor, pipeline)] = study.gain(values)
        *place, published = multimodal.PUBLISHED_LARGEST
        self.assertEqual(max(gains, key=gains.get), tuple(place))
        self.assertAlmostEqual(gains[tuple(place)], published, delta=5.5)  # points; the images' size is not printed


class Offload(unittest.TestCase):
    def test_brings_the_peak_to_that_of_interleaved_1f1b_for_nothing(self):
        cases = offload.study(PROGRAM)
        (plain, plain_peaks), (selective, peaks) = cases["STP"], cases["STP, selective offload"]
        self.assertGreater(selective / plain, 0.995)
        for before, after in zip(plain_peaks, peaks):
            self.assertLess(after / before, 0.9)  # printed: 10 to 19.2 % less on each rank
        self.assertAlmostEqual(max(peaks) / max(cases["1F1B-I"][1]), 1, delta=0.1)  # printed: close to its 40 GiB


if __name__ == "__main__":
    PROGRAM = os.path.join(sys.argv.pop(1), "panpipe")
    unittest.main(verbosity=0)
