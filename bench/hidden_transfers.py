#!/usr/bin/env python3
"""Are transfers hidden behind compute? A GPT on two ranks over Gloo, every hand-over the same bytes, the passes longer and longer.

    python3 bench/hidden_transfers.py build/release/bin [--rounds 3] [--steps 6] [--json FILE]

Beside it the same job over threads, where a hand-over passes a pointer: what Gloo's step takes longer is the part of the transfers
that is not hidden. The two take turns, so that a busy machine is busy for both.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

JOB = """panpipe: 1
cluster: {{devices: 2, memory: 16 GiB, link: {{latency: 10 us, bandwidth: 1 GB/s}}}}
workload: {{model: gpt, layers: {layers}, hidden: 256, heads: 8, sequence: 128, vocabulary: 512}}
batch: {{micro: 4, microbatches: 8}}
schedule: 1f1b
optimizer: {{name: sgd, learning_rate: 0.01}}
"""


def run(binary, job, transport, steps):
    command = [binary / "panpipe", "run", job, "--steps", steps, "--warmup", "2", "--transport", transport, "--json", "--timeline"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    rows = []
    print(f"{'layers':>6} {'one F':>9} {'messages':>9} {'of':>9} {'step, Gloo':>11} {'step, threads':>14} {'not hidden':>11} {'of transfers':>13}")
    with tempfile.TemporaryDirectory(prefix="panpipe-hidden-") as folder:
        for layers in (2, 4, 8, 16):
            job = pathlib.Path(folder) / f"{layers}.yaml"
            job.write_text(JOB.format(layers=layers))
            steps = {"gloo": [], "local": []}
            forwards, sends, sizes = [], [], []
            for _ in range(options.rounds):
                for transport in steps:
                    result = run(options.bin, job, transport, options.steps)
                    steps[transport].append(result["metrics"]["step_time_s"])
                    if transport == "gloo":
                        spans = result["timeline"]
                        forwards += [s["end_s"] - s["start_s"] for s in spans if s["lane"] == "compute" and "F" in s["action"]]
                        travelled = [s for s in spans if s["lane"] == "send"]
                        sends.append(sum(s["end_s"] - s["start_s"] for s in travelled))
                        sizes.append((len(travelled), statistics.mean(s["bytes"] for s in travelled)))
            gloo, local = (statistics.median(steps[t]) for t in ("gloo", "local"))
            sent, late = statistics.median(sends), gloo - local
            row = {"layers": layers, "forward_s": statistics.median(forwards), "messages": sizes[0][0], "message_bytes": sizes[0][1], "transfers_s": sent,
                   "step_gloo_s": gloo, "step_threads_s": local, "not_hidden_s": late, "step_ratio": gloo / local}
            rows.append(row)
            print(f"{layers:6} {row['forward_s'] * 1e3:6.2f} ms {row['messages']:9} {row['message_bytes'] / 1024:5.0f} KiB {gloo * 1e3:8.2f} ms {local * 1e3:11.2f} ms "
                  f"{late * 1e3:8.2f} ms {sent * 1e3:10.2f} ms", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
