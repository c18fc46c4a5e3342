#!/usr/bin/env python3
"""STP with offload of its first stages' activations, 12.1B on 16 H20 (section 5 of arXiv 2510.27257).

    python3 validation/stp/offload.py BIN/panpipe

The paper prints that the peaks of the four ranks fall by 10 to 19.2 %, close to interleaved 1F1B's 40 GiB, at a negligible loss of
throughput; the shares that it offloads are not printed. Here whole activations leave where the copies are hidden."""

import sys

import scenarios

CLUSTER = "clusters/h20x8-x2.yaml"
CONFIGURATION = {**scenarios.PUBLISHED["configurations"][2]}  # 6144 tokens, TP4 PP4
MICROBATCHES = 64
CASES = {
    "1F1B-I": ("interleaved-1f1b", {}),
    "ZB-V": ("zb-v", {}),
    "STP": ("stp", {}),
    "STP, selective offload": ("stp", {"schedule": "{name: stp, offload: selective}"}),
    "STP, full offload": ("stp", {"schedule": "{name: stp, offload: full}"}),
}


def study(program):
    """Of each case: samples/s and the peak activations of the ranks in GiB."""
    texts = [
        scenarios.scenario(CONFIGURATION, name, MICROBATCHES, cluster=CLUSTER, **changes) for name, changes in CASES.values()
    ]
    result = {}
    for case, document in zip(CASES, scenarios.predict_all(program, texts)):
        peaks = [device["parts"].get("activations", 0) / 2**30 for device in document["memory"]]
        result[case] = (scenarios.throughput(document), peaks)
    return result


def main():
    rows = [
        (case, f"{throughput:.2f}", ", ".join(f"{peak:.1f}" for peak in peaks))
        for case, (throughput, peaks) in study(sys.argv[1]).items()
    ]
    print("\n".join(scenarios.table(["", "samples/s", "peak activations of ranks 0 to 3, GiB"], rows)))


if __name__ == "__main__":
    main()
