#!/usr/bin/env python3
"""The two numbers of scenarios/calibrations/rtx-3090-fp32.yaml that Pfeife's table 5 makes: rate of matrix products and launch time.

    validation/pfeife/fit.py build/release/bin/panpipe

Robust least squares (soft L1 at 5 %) over the logarithms of predicted over measured time of the rows that its planner accepted,
cuts planned; Gauss-Newton with differences of 8 %. Prints the numbers with their uncertainty, and the mean error with each model left out.
"""

import math
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import table5

FILE = pathlib.Path(__file__).resolve().parents[2] / "scenarios/calibrations/rtx-3090-fp32.yaml"
UNITS = {"gemm_efficiency": "", "launch": " us"}
DIFFERENCE, ROBUST, ROUNDS = 0.08, 0.05, 3


def residuals(panpipe, numbers):
    """ln(predicted / measured) of the accepted rows, by model."""
    text = FILE.read_text()
    for key, value in numbers.items():
        text = re.sub(rf"(?m)^{key}: {{value: [^,}}]*", f"{key}: {{value: {value:.6g}{UNITS[key]}", text)
    with tempfile.TemporaryDirectory() as folder:
        changed = pathlib.Path(folder) / "changed.yaml"
        changed.write_text(text)
        rows = table5.judged(panpipe, [f"cluster.device.calibration={changed}"], "planned")
    return [(row["model"], math.log(row["predicted_ms"] / row["measured_ms"])) for row in rows if row["accepted"]]


def shipped():
    text = FILE.read_text()
    return {key: float(re.search(rf"(?m)^{key}: {{value: ([\d.]+)", text).group(1)) for key in UNITS}


def normal_equations(errors, slopes, rows):
    """a b b c, and the right side, of the weighted rows."""
    a = b = c = x = y = 0.0
    for i in rows:
        weight = 1 / math.sqrt(1 + (errors[i] / ROBUST) ** 2)
        p, q = slopes[0][i], slopes[1][i]
        a, b, c = a + weight * p * p, b + weight * p * q, c + weight * q * q
        x, y = x - weight * p * errors[i], y - weight * q * errors[i]
    determinant = a * c - b * b
    return [(c * x - b * y) / determinant, (a * y - b * x) / determinant], [c / determinant, a / determinant]


def mean_error(errors):
    return sum(abs(math.exp(error) - 1) for error in errors) / len(errors)


def main():
    panpipe = sys.argv[1] if len(sys.argv) > 1 else "build/release/bin/panpipe"
    numbers = shipped()
    for _ in range(ROUNDS):
        found = residuals(panpipe, numbers)
        errors = [error for _, error in found]
        slopes = []
        for key in UNITS:
            changed = residuals(panpipe, {**numbers, key: numbers[key] * (1 + DIFFERENCE)})
            slopes.append([(after - before) / math.log(1 + DIFFERENCE) for (_, after), before in zip(changed, errors)])
        step, spread = normal_equations(errors, slopes, range(len(errors)))
        deviation = math.sqrt(sum(error * error for error in errors) / (len(errors) - 2))
        print(
            ", ".join(f"{key} {numbers[key]:.4g}{UNITS[key]}" for key in UNITS),
            f"mean error {100 * mean_error(errors):.2f} %",
            flush=True,
        )
        best, numbers = numbers, {key: numbers[key] * math.exp(max(-0.3, min(0.3, d))) for key, d in zip(UNITS, step)}
    for key, variance in zip(UNITS, spread):
        print(f"{key}: {best[key]:.4g}{UNITS[key]} +- {best[key] * deviation * math.sqrt(variance):.2g}{UNITS[key]}")
    for left_out in sorted(table5.WORKLOAD):
        rows = [i for i, (model, _) in enumerate(found) if model != left_out]
        others = [i for i in range(len(found)) if i not in rows]
        step, _ = normal_equations(errors, slopes, rows)
        moved = [errors[i] + sum(max(-0.3, min(0.3, d)) * slope[i] for d, slope in zip(step, slopes)) for i in others]
        print(f"{left_out} by a fit without it: mean error {100 * mean_error(moved):.1f} %")


if __name__ == "__main__":
    main()
