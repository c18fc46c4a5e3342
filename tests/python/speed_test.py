"""A call from Python costs little compared with its work. Figures: bench/python_calls.py; this fails only far beyond them."""

import time
import unittest

import panpipe

LARGE = "examples/gpt3-175b-a100x64.yaml"


def best_of(rounds, call):
    """CPU time of the fastest of some calls, seconds."""
    times = []
    for _ in range(rounds):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return min(times)


class Speed(unittest.TestCase):
    def test_what_was_asked_before_is_not_read_again(self):
        panpipe._core.forget_cached()
        first = best_of(1, lambda: panpipe.estimate(LARGE))
        again = best_of(30, lambda: panpipe.estimate(LARGE))
        self.assertLess(again, 0.5 * first)

    def test_what_python_adds_is_little(self):
        # Figures: some 25 us. Ten times that is a call that does what it need not.
        beyond = []
        for _ in range(200):
            begin = time.perf_counter()
            step = panpipe.estimate(LARGE)
            beyond.append(time.perf_counter() - begin - step._core.engine_s)
        self.assertLess(sorted(beyond)[len(beyond) // 4], 250e-6)


if __name__ == "__main__":
    unittest.main()
