#!/usr/bin/env python3
"""Counts the shipped orders again without anything of Panpipe's: step and what ranks hold by tools/check-certificate, the bubble, the
bound and the costs here.

`recount_orders.py PROGRAM SCENARIOS` compares with the document of `PROGRAM arena --json`."""

import fractions
import json
import pathlib
import subprocess
import sys
import tempfile

CHECK = pathlib.Path(__file__).resolve().parents[3] / "tools/check-certificate"
RANKS, MICROBATCHES, WAYS = 4, 8, 4
ORDERS = {"wave-p4-m8-32k.csv": ("32k", "1", "1.571", "0.619", 4), "wave-p4-m8-8k.csv": ("8k", "1", "1.2", "0.867", 3)}


def costs_of_llama(sequence):
    """Of a block of Llama 3 8B, in FLOP a token: products with 4 projections and 3 of the MLP; causal attention reads half of the
    sequence, in two products (scores, values) of 2 FLOP and in five in the backward; it has no weight gradient."""
    hidden, mlp, key_value = 4096, 14336, 4096 * 8 // 32
    products = 2 * (2 * hidden * hidden + 2 * hidden * key_value + 3 * hidden * mlp)
    attention = 2 * 2 * hidden * sequence / 2
    return [round((products + 2.5 * attention) / (products + attention), 3), round(products / (products + attention), 3)]


def bound(rank, cost, room):
    """By hand: of every order on this wave. The rank waits for the first forward to come from rank 0. From then on it can run `room`
    forwards at most before its first input gradient, and that one comes after the first microbatch has gone on to the last stage
    and back. All the rank's work takes its time besides."""
    home = [at if way % 2 == 0 else RANKS - 1 - at for way in range(WAYS) for at in range(RANKS)]
    stages = [stage for stage in range(len(home)) if home[stage] == rank]
    before = stages[0] * cost["F"]
    way = (len(home) - stages[0]) * cost["F"] + (len(home) - 1 - stages[-1]) * cost["I"]
    return before + max(0, way - room * cost["F"]) + MICROBATCHES * WAYS * sum(cost.values())


def main():
    program, scenarios = sys.argv[1], pathlib.Path(sys.argv[2])
    for sequence, name in ((32768, "wave-p4-m8-32k.csv"), (8192, "wave-p4-m8-8k.csv")):
        assert costs_of_llama(sequence) == [float(ORDERS[name][2]), float(ORDERS[name][3])], costs_of_llama(sequence)
    for name, (ratio, forward, gradient, weight, held) in ORDERS.items():
        cost = {kind: fractions.Fraction(text) / WAYS for kind, text in zip("FIW", (forward, gradient, weight))}
        words = f"arena {scenarios}/schedules/{name} --alone --cost-ratios {ratio} --clusters none".split()
        with tempfile.NamedTemporaryFile() as file:
            subprocess.run(
                [program, *words, "--by", "a test", "--reference", "none", "--certificate", file.name],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            subprocess.run([CHECK, file.name], check=True)  # the step and what ranks hold
            certified = json.loads(pathlib.Path(file.name).read_text())["makespan"]
        answer = subprocess.run([program, *words, "--json"], capture_output=True, text=True, check=True).stdout
        said = json.loads(answer)["rounds"][0]["schedules"][0]
        least = max(bound(rank, cost, held * WAYS) for rank in range(RANKS))
        step = fractions.Fraction(certified) / WAYS
        bubble = 1 - MICROBATCHES * WAYS * sum(cost.values()) / step
        ours = {"makespan": step, "bubble": bubble, "held": held, "bound": least}
        for key, value in ours.items():
            assert abs(said[key] - float(value)) < 1e-9, f"{name}: {key} is {float(value)}, the arena says {said[key]}"
        print(f"{name}: " + ", ".join(f"{key} {float(value):.6f}" for key, value in ours.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
