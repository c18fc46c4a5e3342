#!/usr/bin/env python3
"""Where STP stops paying: its gain over interleaved 1F1B and over ZB-V when one thing at a time changes.

    python3 validation/stp/where_it_pays.py BIN/panpipe

Prints the tables of docs/models/stp.md. Each gain stands twice: as the trainer was released (a rank waits for its sends, a braid
starts with all inputs and gives its outputs at its end), and with sends that nobody waits for and halves of a braid that wait and
send for themselves."""

import sys

import scenarios

BASE = {"model": "12.1B", "sequence": 6144, "micro": 1, "tensor": 8, "pipeline": 2}
MICROBATCHES = 64
RELEASED = {}
EAGER = {"transfers": "{semantics: asynchronous, braid_inputs: unit, braid_outputs: unit}"}


def case(microbatches=MICROBATCHES, cluster=None, **place):
    changes = {"cluster": cluster} if cluster else {}
    return {**BASE, **place}, microbatches, changes


def fabric(bandwidth):
    """The study's cluster with another bandwidth behind the switch, GB/s each way."""
    return f"{{file: clusters/a800x8-x4.yaml, wiring: {{switch: {{bandwidth: {bandwidth} GB/s, latency: 2 us}}}}}}"


def network(bandwidth):
    """The study's cluster with another bandwidth between nodes, GB/s per GPU."""
    return (
        f"{{file: clusters/a800x8-x4.yaml, network: {{nics_per_node: 8, bandwidth: {bandwidth} GB/s, latency: 5 us, "
        "oversubscription: 1}}"
    )


SWEEPS = [
    ("tensor-parallel degree, PP4", "TP", {t: case(tensor=t, pipeline=4) for t in (1, 2, 4, 8)}),
    ("microbatches, TP8 PP4 (m >= 3p - 1 = 11)", "m", {m: case(m, pipeline=4) for m in (12, 16, 24, 32, 64, 256)}),
    ("microbatches, TP4 PP4", "m", {m: case(m, tensor=4, pipeline=4) for m in (12, 16, 24, 32, 64, 256)}),
    ("switch bandwidth, GB/s, TP8 PP2", "GB/s", {b: case(cluster=fabric(b)) for b in (25, 50, 100, 200, 400, 900, 3600)}),
    ("sequence length, TP8 PP2", "tokens", {s: case(sequence=s) for s in (512, 2048, 6144, 8192, 32768)}),
    (
        "bandwidth between nodes per GPU, GB/s, TP8 PP4",
        "GB/s",
        {b: case(cluster=network(b), pipeline=4) for b in (5, 12.5, 25, 50, 100)},
    ),
]


def texts_of(point):
    configuration, microbatches, changes = point
    return [
        scenarios.scenario(configuration, name, microbatches, **changes, **rules)
        for rules in (RELEASED, EAGER)
        for name in scenarios.SCHEDULES
    ]


def gains(documents):
    """STP over interleaved 1F1B and over ZB-V, as released and with eager sends."""
    values = [scenarios.throughput(document) for document in documents]
    pairs = [(values[at + 2] / values[at + k] - 1) * 100 for at in (0, 3) for k in (0, 1)]
    return [f"{gain:+.1f}" for gain in pairs]


def main():
    program = sys.argv[1]
    points = [(sweep, key, point) for sweep, (_, _, table) in enumerate(SWEEPS) for key, point in table.items()]
    documents = scenarios.predict_all(program, [text for _, _, point in points for text in texts_of(point)])
    rows = {}
    for number, (sweep, key, _) in enumerate(points):
        rows.setdefault(sweep, []).append([str(key)] + gains(documents[6 * number : 6 * number + 6]))
    print("Gain of STP in % of throughput, 12.1B model, 6144 tokens, m = 64 unless said.")
    for sweep, (title, head, _) in enumerate(SWEEPS):
        print(f"\n**{title}**\n")
        over = [f"over {other}, {sends}" for sends in ("released", "eager sends") for other in ("1F1B-I", "ZB-V")]
        print("\n".join(scenarios.table([head, *over], rows[sweep])))


if __name__ == "__main__":
    main()
