#!/usr/bin/env python3
"""One device predicts a cluster: units measured one after another by one process of one thread, links from elsewhere, then the job itself.

    validation/own_runs/one_device.py                                  # all combinations, each once
    validation/own_runs/one_device.py --record validation/measured     # keeps the figures, with machine and date

Every combination is profiled by a single rank (`panpipe profile --ranks 1 --threads 1`), which holds no more than --window of the
model's units at a time; a tensor-parallel one measures one shard. The job is then predicted twice: with the links that the scenario's cluster states, and with
a link profile (`panpipe profile --only-transfers`). At last it is run over two ranks. Of the rounds the fastest prediction and the fastest
run (median of its steps) count. What a combination gave is kept in --out: an interrupted call goes on where it was.
"""

import argparse
import json
import sys

import study

# Model, schedule, pipeline, tensor, samples a microbatch, microbatches.
COMBINATIONS = [
    ("gpt", "1f1b", 2, 1, 2, 8),
    ("gpt", "zb-h1", 2, 1, 2, 8),
    ("llama", "interleaved-1f1b", 2, 1, 2, 8),
    ("bert", "zb-v", 2, 1, 4, 8),
    ("exported GPT", "1f1b", 2, 1, 4, 8),
    ("exported U-Net", "1f1b", 2, 1, 8, 8),
    ("wide gpt", "1f1b", 2, 1, 1, 8),
    ("gpt", "1f1b", 1, 2, 4, 8),
    ("llama", "1f1b", 1, 2, 4, 8),
]
study.BUILT_IN["wide gpt"] = (
    "{model: gpt, layers: 6, hidden: 768, heads: 12, vocabulary: 4096, sequence: 128, tied_embedding: false}"
)


class OneDevice(study.Study):
    def links(self):
        """What messages and sums take between two ranks, without any model."""
        found = self.out / "links.yaml"
        if not found.exists():
            scenario = self.scenario("links-scenario", "gpt", 2, 1, 1)
            self.tell("profile", scenario, only_transfers=True, ranks=2, transport=self.options.transport, o=found)
        return found

    def measure_all(self, combination):
        """Profile, predictions and run, `--rounds` times; of the rounds the fastest, each by itself: a shared host only ever slows."""
        model, schedule, pipeline, tensor, micro, microbatches = combination
        stem = f"{model.replace(' ', '-')}-{pipeline}x{tensor}-{micro}"
        degrees = f"parallel: {{pipeline: {pipeline}, tensor: {tensor}}}\n"
        scenario = self.scenario(stem, model, pipeline * tensor, micro, microbatches, degrees)
        rounds, stated = [], []
        for again in range(self.options.rounds):
            profile = self.profile(scenario, again, ranks=1, threads=1, window=self.options.window)
            settings = [f"profile={profile}", f"schedule={schedule}"]
            alone = json.loads(self.tell("estimate", scenario, settings=settings, json=True))
            stated.append(alone["metrics"]["step_time_s"])
            rounds.append(self.compare(scenario, f"[{profile}, {self.links()}]", schedule, again))
        row = study.summary((model, schedule, pipeline * tensor, micro, microbatches), rounds)
        row |= {"pipeline": pipeline, "tensor": tensor, "predicted_stated_links_s": min(stated)}
        row |= {key: min(each[key] for each in rounds) for key in ("predicted_s", "measured_s")}
        row["difference"] = row["predicted_s"] / row["measured_s"] - 1
        row["difference_stated_links"] = row["predicted_stated_links_s"] / row["measured_s"] - 1
        return row

    def run_all(self):
        rows = []
        for number, combination in enumerate(COMBINATIONS):
            kept = self.out / f"row-{number}.json"
            if not kept.exists():
                row = self.measure_all(combination)
                kept.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
                print(
                    f"{row['model']} {row['schedule']}: {row['predicted_s']:.4f} s predicted, {row['measured_s']:.4f} s measured",
                    file=sys.stderr,
                    flush=True,
                )
            rows.append(json.loads(kept.read_text(encoding="utf-8")))
        return rows


def table(rows):
    lines = [
        "| model | schedule | pipeline x tensor | micro | measured | spread | predicted, links of the cluster | difference | with a link profile | difference | peak predicted | measured | difference |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['model']} | {row['schedule']} | {row['pipeline']} x {row['tensor']} | {row['micro']} | {row['measured_s'] * 1e3:.0f} ms | {row['spread']:.1%} "
            f"| {row['predicted_stated_links_s'] * 1e3:.0f} ms | {row['difference_stated_links']:+.1%} | {row['predicted_s'] * 1e3:.0f} ms | {row['difference']:+.1%} "
            f"| {row['peak_predicted'] / 2**20:.1f} MiB | {row['peak_measured'] / 2**20:.1f} MiB | {row['peak_difference']:+.1%} |"
        )
    mean = lambda key: sum(abs(row[key]) for row in rows) / len(rows)
    worst = lambda key: max(abs(row[key]) for row in rows)
    lines.append("")
    lines.append(
        f"Step time with a link profile: {mean('difference'):.1%} off on average, {worst('difference'):.1%} at worst; with the cluster's links {mean('difference_stated_links'):.1%}, "
        f"{worst('difference_stated_links'):.1%}; spread of the measured steps {mean('spread'):.1%} on average. Peak memory: {mean('peak_difference'):.1%}, {worst('peak_difference'):.1%}."
    )
    return "\n".join(lines)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--bin", default="build/release/bin", help="folder of the programs")
    arguments.add_argument("--out", default="out/one_device", help="folder for profiles and results")
    arguments.add_argument("--transport", default="gloo")
    arguments.add_argument("--steps", type=int, default=7)
    arguments.add_argument("--rounds", type=int, default=2)
    arguments.add_argument("--seconds", type=int, default=6, help="of profiling, for each profile")
    arguments.add_argument("--window", default="64 MiB", help="memory of the units that are held at once while profiling")
    arguments.add_argument("--record", help="folder in which the figures are kept, named by date and machine")
    options = arguments.parse_args()
    rows = OneDevice(options).run_all()
    print(table(rows))
    if options.record:
        kept = study.measured_here("panpipe-one-device/1", options) | {"window": options.window, "rows": rows}
        how = (
            f"; profiled by one rank of one thread, at most {options.window} of units at a time; run over two ranks of one thread "
            f"each, {options.transport}; fastest of {rows[0]['rounds']} rounds of {options.steps} steps."
        )
        study.record(options.record, f"{kept['date']}-one-device", kept, f"{how}\n\n{table(rows)}")


if __name__ == "__main__":
    main()
