#!/usr/bin/env python3
"""STP's gain for multimodal models: a ViT as the first virtual stage, a language model over the others.

    python3 validation/stp/multimodal.py BIN/panpipe

The paper (arXiv 2510.27257) prints the sizes of the models and the largest gain over interleaved 1F1B, 16.7 % (14.9B, TP8 PP2).
Images and sequences are not printed; here one image of 896 x 896 pixels (4096 patches, 1024 tokens) in 4096 tokens."""

import sys

import scenarios

MICROBATCHES = 64
# Model, tensor, pipeline, first layers of the language model's stages after its first: one stage fewer than virtual stages.
CASES = [
    ("mllm-14.9b", 8, 2, [12, 24]),
    ("mllm-14.9b", 4, 4, [5, 10, 15, 20, 25, 30]),
    ("mllm-28.8b", 8, 4, [6, 12, 18, 24, 30, 36]),
    ("mllm-30.3b", 4, 8, [3 * stage for stage in range(1, 15)]),
]
PUBLISHED_LARGEST = ("mllm-14.9b", 8, 2, 16.7)  # gain over interleaved 1F1B, %


# Balance of the two ranks, 14.9B TP8 PP2: tokens and pixels of a sample, and where the language model is cut.
SAMPLES = [(3072, 896), (4096, 896), (6144, 896), (6144, 1344)]
CUTS = [(11, 22), (12, 24), (13, 26)]


def text_of(model, tensor, pipeline, starts, schedule, dimensions=""):
    cuts = ["embedding"] + [f"h.{start}" for start in starts]
    configuration = {**scenarios.PUBLISHED["configurations"][0], "micro": 1, "tensor": tensor, "pipeline": pipeline}
    return scenarios.scenario(
        configuration, schedule, MICROBATCHES, workload=f"{{model: {model}{dimensions}}}", partition="[" + ", ".join(cuts) + "]"
    )


def study(program):
    texts = [text_of(*case, schedule) for case in CASES for schedule in scenarios.SCHEDULES]
    values = [scenarios.throughput(document) for document in scenarios.predict_all(program, texts)]
    return [(case, dict(zip(scenarios.SCHEDULES, values[3 * number :]))) for number, case in enumerate(CASES)]


def balance(program):
    """Gain of STP over interleaved 1F1B in %, per sample and cut."""
    points = [(sample, cut) for sample in SAMPLES for cut in CUTS]
    texts = [
        text_of("mllm-14.9b", 8, 2, cut, schedule, f", sequence: {tokens}, image: {pixels}")
        for (tokens, pixels), cut in points
        for schedule in ("interleaved-1f1b", "stp")
    ]
    values = [scenarios.throughput(document) for document in scenarios.predict_all(program, texts)]
    return {point: 100 * (values[2 * k + 1] / values[2 * k] - 1) for k, point in enumerate(points)}


def main():
    rows = []
    for (model, tensor, pipeline, _), values in study(sys.argv[1]):
        over = [f"{100 * (values['stp'] / values[other] - 1):+.1f} %" for other in scenarios.SCHEDULES[:2]]
        samples = ", ".join(f"{values[name]:.2f}" for name in scenarios.SCHEDULES)
        rows.append((model, f"TP{tensor} PP{pipeline}", samples, *over))
    columns = ["model", "", "samples/s 1F1B-I, ZB-V, STP", "gain of STP over 1F1B-I", "over ZB-V"]
    print("\n".join(scenarios.table(columns, rows)))
    gains = balance(sys.argv[1])
    columns = ["mllm-14.9b, TP8 PP2: gain over 1F1B-I", *(f"layers {a}, {b - a}, {33 - b}" for a, b in CUTS)]
    rows = [
        (f"{tokens} tokens, image of {pixels} x {pixels}", *(f"{gains[(tokens, pixels), cut]:+.1f} %" for cut in CUTS))
        for tokens, pixels in SAMPLES
    ]
    print("\n" + "\n".join(scenarios.table(columns, rows)))


if __name__ == "__main__":
    main()
