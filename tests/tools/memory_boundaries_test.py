"""Boundaries of what runs on a card: how they are looked for, and how far predictions are off."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "validation"))
from memory import boundaries, study  # noqa: E402


def row(name, largest):
    bytes_of = {"allocated": str(2 * 2**20), "reserved": str(3 * 2**20), "reserved_with_room": str(4 * 2**20)}
    return {"case": name, "of": "sequence", "largest": str(largest), "retries": "2", **bytes_of}


class Search(unittest.TestCase):
    def looked_for(self, start, step, limit):
        tried = []

        def runs(value):
            self.assertEqual(value % step, 0)
            tried.append(value)
            return value <= limit

        return boundaries.bisect(start, step, runs), tried

    def test_every_boundary_is_found_from_every_start(self):
        for start in (1, 7, 64):
            for limit in range(1, 70):
                found, tried = self.looked_for(start, 1, limit)
                self.assertEqual(found, limit)
                self.assertIn(limit + 1, tried)  # both sides were run

    # 1000 / 64 = 15.6. Doubling from 256 tries 256, 512, 1024; then the half between 512 and 1024, and so on.
    def test_sequences_are_multiples_of_64(self):
        found, tried = self.looked_for(256, 64, 1000)
        self.assertEqual(found, 960)
        self.assertEqual(tried, [256, 512, 1024, 768, 896, 960])

    def test_nothing_runs(self):
        self.assertEqual(self.looked_for(512, 64, 63)[0], 0)


class Comparison(unittest.TestCase):
    # 110 / 100 - 1 = +10 %, 960 / 1000 - 1 = -4 %: mean of the sizes 7.
    def test_errors_in_percent(self):
        lines = boundaries.lines_of([(row("a", 100), 110), (row("b", 1000), 960)])
        self.assertEqual(lines[2:4], ["| a | 100 | 110 | +10.0 | 3 | 4 | 2 |", "| b | 1000 | 960 | -4.0 | 3 | 4 | 2 |"])
        self.assertEqual(lines[-1].strip(), "mean 7.0 %, worst +10.0 %, 1 of 2 within 5 %")

    # Allocated 2.02 for 2 MiB is +1 %, 1.9 is -5 %: mean 3. Reserved 5 for 4 MiB is +25 %, 4 is 0: mean 12.5. Only `a` is too far off.
    def test_memory_at_the_boundary(self):
        mib = 2**20
        figures = [(2.02 * mib, 5 * mib), (1.9 * mib, 4 * mib)]
        lines = list(boundaries.causes([(row("a", 100), 110), (row("b", 1000), 960)], figures))
        self.assertEqual(lines[0], "allocated at the boundary: mean 3.0 %, worst -5.0 %")
        self.assertEqual(lines[1], "reserved_with_room at the boundary: mean 12.5 %, worst +25.0 %")
        self.assertEqual(lines[2:], ["a at 100: allocated 2 MiB, predicted 2; reserved with room 4, predicted 5"])

    def test_a_scenario_that_is_predicted_to_fit_nowhere(self):
        self.assertEqual(boundaries.predicted_largest({"devices": [{"largest": None}]}), 0)
        self.assertEqual(boundaries.error(0, 128), -100)


class Committed(unittest.TestCase):
    def test_every_case_was_measured(self):
        rows = {each["case"]: each for each in study.read(study.HERE / "boundaries.csv")}
        cases = boundaries.cases()
        self.assertEqual(list(rows), list(cases))
        for name, settings in cases.items():
            found = rows[name]
            self.assertEqual(int(found["next"]) - int(found["largest"]), boundaries.STEPS[settings["of"]], name)
            self.assertLessEqual(int(found["allocated"]), int(found["reserved"]), name)
            self.assertLessEqual(int(found["reserved"]), settings["card_mib"] * 2**20, name)

    def test_the_page_has_what_was_measured(self):
        page = (ROOT / "docs/models/memory-measured.md").read_text(encoding="utf-8")
        stated = [line for line in page.splitlines() if "gib |" in line]
        rows = [f"| {each['case']} | {each['largest']} |" for each in study.read(study.HERE / "boundaries.csv")]
        self.assertGreater(len(stated), 0)
        for line in stated:
            self.assertTrue(line.startswith(tuple(rows)), line)


if __name__ == "__main__":
    unittest.main()
