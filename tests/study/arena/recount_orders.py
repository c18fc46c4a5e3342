#!/usr/bin/env python3
"""Counts the shipped orders again without anything of Panpipe's: the step, the bubble, what ranks hold, the bound, the costs.

`recount_orders.py PROGRAM SCENARIOS` compares with the document of `PROGRAM arena --json`."""

import fractions
import heapq
import json
import pathlib
import re
import subprocess
import sys

RANKS, MICROBATCHES, WAYS = 4, 8, 4
ORDERS = {"wave-p4-m8-32k.csv": ("32k", "1", "1.571", "0.619", 4), "wave-p4-m8-8k.csv": ("8k", "1", "1.2", "0.867", 3)}


def costs_of_llama(sequence):
    """Of a block of Llama 3 8B, in FLOP a token: products with 4 projections and 3 of the MLP; causal attention reads half of the
    sequence, in two products (scores, values) of 2 FLOP and in five in the backward; it has no weight gradient."""
    hidden, mlp, key_value = 4096, 14336, 4096 * 8 // 32
    products = 2 * (2 * hidden * hidden + 2 * hidden * key_value + 3 * hidden * mlp)
    attention = 2 * 2 * hidden * sequence / 2
    return [round((products + 2.5 * attention) / (products + attention), 3), round(products / (products + attention), 3)]


def read_rows(path):
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return [[re.fullmatch(r"(\d+)([FIW])(\d+)", cell).groups() for cell in line.split(",")] for line in lines]


def inputs(stage, kind, microbatch, last):
    if kind == "F":
        return [(stage - 1, "F", microbatch)] if stage > 0 else []
    if kind == "W":
        return [(stage, "I", microbatch)]
    return [(stage, "F", microbatch)] + ([(stage + 1, "I", microbatch)] if stage < last else [])


def play(rows, cost):
    """Events in the order of their times: a rank that is free starts the next pass of its row once its inputs have ended."""
    todo = [[(int(stage), kind, int(microbatch)) for stage, kind, microbatch in row] for row in rows]
    last = max(stage for row in todo for stage, _, _ in row)
    done, running, events, now, spans = set(), set(), [], fractions.Fraction(0), [[] for _ in rows]
    while True:
        for rank, row in enumerate(todo):
            if row and rank not in running and all(before in done for before in inputs(*row[0], last)):
                heapq.heappush(events, (now + cost[row[0][1]], rank, row[0]))
                spans[rank].append((now, row[0]))
                running.add(rank)
                row.pop(0)
        if not events:
            break
        now, rank, ended = heapq.heappop(events)
        running.remove(rank)
        assert ended not in done, f"{ended} twice"
        done.add(ended)
    assert not any(todo), "the order cannot finish"
    assert len(done) == 3 * (last + 1) * MICROBATCHES
    return now, spans


def most_alive(spans, cost):
    """An activation is alive from the start of F to the end of W; what ends is gone before what starts at that time."""
    changes = [
        (start + (cost["W"] if kind == "W" else 0), -1 if kind == "W" else 1) for start, (_, kind, _) in spans if kind != "I"
    ]
    level = most = 0
    for _, change in sorted(changes):
        level += change
        most = max(most, level)
    return most


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
        path = scenarios / "schedules" / name
        step, spans = play(read_rows(path), cost)
        alive = [fractions.Fraction(most_alive(row, cost), WAYS) for row in spans]
        least = max(bound(rank, cost, held * WAYS) for rank in range(RANKS))
        words = [program, "arena", str(path), "--alone", "--cost-ratios", ratio, "--clusters", "none", "--json"]
        said = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)["rounds"][0]["schedules"][0]
        work = MICROBATCHES * WAYS * sum(cost.values())
        ours = {"makespan": step, "bubble": 1 - work / step, "held": max(alive), "bound": least}
        for key, value in ours.items():
            assert abs(said[key] - float(value)) < 1e-9, f"{name}: {key} is {float(value)}, the arena says {said[key]}"
        print(f"{name}: " + ", ".join(f"{key} {float(value):.6f}" for key, value in ours.items()))
        assert ours["held"] == held
    return 0


if __name__ == "__main__":
    sys.exit(main())
