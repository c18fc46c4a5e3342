"""Tables of printed peaks: figures by source and in all, and who is refused."""

import importlib.machinery
import importlib.util
import pathlib
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/memory-published"
LOADER = importlib.machinery.SourceFileLoader("memory_published", str(TOOL))
TOOLS = importlib.util.module_from_spec(importlib.util.spec_from_loader("memory_published", LOADER))
LOADER.exec_module(TOOLS)


def row(name, source, measured, predicted, fits=True):
    off = None if measured is None else predicted / measured - 1
    return {
        "id": name,
        "source": source,
        "framework": "eager",
        "measured_peak_gib": measured,
        "predicted_peak_gib": predicted,
        "relative_peak_error": off,
        "fits": fits,
    }


ROWS = [row("a1", "a", 10, 11), row("a2", "a", 20, 18), row("b1", "b", 40, 39), row("b2", "b", None, 90, fits=False)]


class Tables(unittest.TestCase):
    # +10, -10 and -2.5 %: mean of the sizes 22.5 / 3, of the signed ones -2.5 / 3.
    def test_errors_by_source_and_in_all(self):
        lines = TOOLS.peaks(ROWS)
        self.assertEqual(lines[2], "| a | eager | 2 | 10.0 | 10.0 | +0.0 | +10.0 (a1) |")
        self.assertEqual(lines[3], "| b | eager | 1 | 2.5 | 2.5 | -2.5 | -2.5 (b1) |")
        self.assertEqual(lines[4], "| all | | 3 | 7.5 | 10.0 | -0.8 | +10.0 (a1) |")

    def test_runs_that_ran_and_are_refused(self):
        lines = TOOLS.misfits(ROWS)
        self.assertEqual(lines[0], "1 of 4 runs that ran are predicted not to fit:")
        self.assertEqual(lines[-1], "| b | 1 of 2 | 90.0 |")

    def test_only_the_tables_of_the_page_change(self):
        page = f"before\n{TOOLS.BEGIN}\nold\n{TOOLS.END}\nbehind\n"
        self.assertEqual(TOOLS.in_page(page, "new"), f"before\n{TOOLS.BEGIN}\n\nnew\n\n{TOOLS.END}\nbehind\n")


if __name__ == "__main__":
    unittest.main()
