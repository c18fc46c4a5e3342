#!/usr/bin/env python3
"""Times of the page in a headless Chromium: measure_page.py BUILD/web [--times N].

Prints the time to the first figures and to the first whole answer, and for 64 GPUs the milliseconds from a change of a field to the
drawn timeline: the best and the median; on a busy machine the processor time means more."""

import argparse
import os
import pathlib
import statistics

import browser

COMMON = {
    "cluster.file": "clusters/h100x8.yaml",
    "cluster.nodes": "8",
    "workload.config": "workloads/llama-3-8b.json",
    "workload.sequence": "8192",
    "batch.micro": "1",
    "precision": "bf16",
    "trainer": "megatron-core",
    "schedule": "1f1b",
}
MICROBATCHES = 256  # of a rank, as a step of 4 million tokens has them on a pipeline of 16 replicas


def scenario(ranks):
    data = 32 // ranks
    degrees = {"parallel.pipeline": ranks, "parallel.tensor": 2, "parallel.data": data, "batch.global": MICROBATCHES * data}
    return "&".join(f"{key}={value}" for key, value in {**COMMON, **degrees}.items())


CASES = {f"{ranks} ranks": scenario(ranks) for ranks in (1, 2, 4, 8)} | {"gpt3-175b-a100x64": "example=gpt3-175b-a100x64"}
CHANGE = """new Promise(done => {
  const field = document.querySelector('input[name=recompute][value=%s]'), begin = performance.now();
  const drawn = () => new Promise(next => requestAnimationFrame(() => { const c = new MessageChannel(); c.port1.onmessage = next; c.port2.postMessage(0); }));
  let figures;
  new MutationObserver(() => { figures ??= performance.now() - begin; }).observe(document.getElementById('answer'), { childList: true });
  new MutationObserver(async (_, watch) => {
    watch.disconnect();
    await drawn();
    done([figures, performance.now() - begin]);
  }).observe(document.documentElement, { attributeFilter: ['data-answers'] });
  field.click();
})"""


def processor_ms(b):
    """Of the browser and all its processes."""
    parents, used = {}, {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
        used[int(stat.parent.name)] = sum(map(int, fields[11:13])) * 1000 / os.sysconf("SC_CLK_TCK")
    family = {b.process.pid}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(used.get(pid, 0) for pid in family)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("web", type=pathlib.Path)
    parser.add_argument("--times", type=int, default=15)
    options = parser.parse_args()
    b, page = browser.Browser(browser.find()), (options.web / "panpipe.html").resolve().as_uri()
    try:
        first = []
        for _ in range(5):
            b.open(page)
            b.wait("document.documentElement?.dataset.ready")
            first.append(b.run("[document.documentElement.dataset.early, document.documentElement.dataset.ready].map(Number)"))
        print("first figures %.0f ms, first answer %.0f ms (best of %d)" % (*map(min, zip(*first)), len(first)))
        for name, address in CASES.items():
            b.open(f"{page}#{address}")
            b.wait("document.documentElement?.dataset.ready")
            b.wait("document.querySelector('#predict canvas').timeline?.data")
            taken, begin = [], processor_ms(b)
            for i in range(options.times + 3):
                taken.append(b.run(CHANGE % ("selective", "none", "full")[i % 3]))
                b.run("new Promise(done => setTimeout(done, 900))")  # as a hand rests: hints come then
            used = (processor_ms(b) - begin) / len(taken)
            figures, drawn = zip(*taken[3:])
            spans = b.run("document.querySelector('#predict canvas').timeline.data.spans")
            print(
                f"{name}, {spans} spans: figures {min(figures):.0f} to {max(figures):.0f} ms, with drawing best {min(drawn):.0f}, "
                f"median {statistics.median(drawn):.0f}, worst {max(drawn):.0f} ms; processor time of a change, hints included, {used:.0f} ms",
                flush=True,
            )
    finally:
        b.close()


if __name__ == "__main__":
    main()
