#!/usr/bin/env python3
"""The page in a headless Chromium, or Firefox, as a person uses it: check_page.py BUILD/web PANPIPE [--pictures FOLDER] [--firefox].

Opens the one file from the disk and the served page; chooses, drags, plans, stops, drops, shares, prints; compares figures with the
native program. Exit 77: there is no Chromium, or no page was built."""

import argparse
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse

import browser
import firefox
from page import ANSWERS, CONFIG, READY, ROOT, SCENARIO, STEP, VIEWS, VISIBLE, Page


def check_figures(p):
    p.open()
    step = p.native("estimate", SCENARIO)["metrics"]["step_time_s"]
    assert p.b.run(STEP) == step, (p.b.run(STEP), step)
    assert f"{step:.3f} s" in p.text("#answer"), p.text("#answer")
    assert "80 % of runs" in p.text("#answer") and "fits surely" in p.text("#answer")


def check_drag(p):
    """A step of the slider by a key: pipeline 4 becomes 8, the tensor degree stays, and the answer is the native one."""
    p.open()
    before = p.b.run(ANSWERS)
    p.b.run("document.querySelector('[data-key=\"parallel.tensor\"] input[type=range]').focus()")
    p.b.key("ArrowLeft", number=37)
    p.b.wait(f"{ANSWERS} > {before}")
    keys = {**SCENARIO, "parallel.tensor": "2", "parallel.data": "2"}
    assert p.b.run(STEP) == p.native("estimate", keys)["metrics"]["step_time_s"], p.text("#answer")
    p.b.wait("location.hash.includes('parallel.tensor=2')")


def check_machine(p):
    """Four of the eight cards of a server: the degrees fill them, their sockets stay, a price list without the card goes."""
    p.open({**SCENARIO, "run.tokens": "1B", "run.price": "nebius"})
    p.put("field-cluster-file", "clusters/rtx4090x8.yaml")
    p.put("field-cluster-devices-per-node", "4", "input")
    assert "on 4 x RTX4090" in p.text(".heading") and not p.text("#faults"), p.text("#faults")
    keys = {k: v for k, v in SCENARIO.items() if k != "cluster.nodes"} | {
        "cluster.file": "clusters/rtx4090x8.yaml",
        "parallel.pipeline": "1",
    }
    keys |= {"cluster.devices_per_node": "4", "cluster.wiring": "{sockets: {groups: [[0, 1, 2, 3]]}}"}
    assert p.b.run(STEP) == p.native("estimate", keys)["metrics"]["step_time_s"], p.text(".heading")


def check_example(p):
    """A plan taken over a scenario from a file replaces what the file states of its own plan."""
    p.open({}, "example=gpt3-175b-a100x64")
    text = (ROOT / "scenarios/examples/gpt3-175b-a100x64.yaml").read_text()
    done = subprocess.run([p.native_program, "estimate", "-", "--json"], input=text, capture_output=True, text=True)
    assert p.b.run(STEP) == json.loads(done.stdout)["metrics"]["step_time_s"]
    p.put("field-schedule", "zb-v")  # the example's virtual_stages is for another family
    assert "zb-v with 2 stages a rank" in p.text(".heading") and not p.text("#faults"), p.text("#faults")


def check_errors(p):
    """An impossible batch: the error is at its field, with the remedy, and the old figures stay."""
    p.open()
    old = p.b.run(STEP)
    p.put("field-batch-micro", "3")
    shown = p.text('[data-key="batch.global"] .error')
    assert "no multiple of 3" in shown and "126 and 129" not in shown and "63 and 66" in shown, shown
    assert p.b.run(STEP) == old and p.b.run("document.getElementById('predict').classList.contains('stale')")
    p.put("field-batch-micro", "2")
    assert not p.b.run("document.querySelector('.wrong')")
    p.put("field-cluster-nodes", "0", "input")  # no degrees fill no devices
    assert p.b.run("[...document.querySelectorAll('.wrong')].map(e => e.dataset.key)") == ["cluster.nodes"]


def check_plan(p):
    p.open()
    p.b.run("document.getElementById('plan-go').click()")
    p.b.wait("!!document.querySelector('#plan-result tbody tr')", 120)
    rows = p.b.run("[...document.querySelectorAll('#plan-result tbody tr')].map(r => [...r.cells].map(c => c.innerText))")
    best = p.native("plan", SCENARIO, "--open", "--candidates", "10")["best"]
    assert rows[0][0] == "mine" and rows[1][-1] == best["summary"], rows[:2]
    p.acts("document.querySelector('#plan-result tbody button').click()")
    assert abs(p.b.run(STEP) / best["metrics"]["step_time_s"] - 1) < 1e-9, (p.b.run(STEP), best["metrics"]["step_time_s"])


def check_stop(p):
    p.open(
        {
            **SCENARIO,
            "workload.model": "gpt3-175b",
            "cluster.nodes": "32",
            "parallel.pipeline": "16",
            "parallel.data": "4",
            "batch.global": "512",
        }
    )
    p.b.run("document.getElementById('plan-go').click()")
    p.b.wait("/Searching/.test(document.getElementById('plan-status').innerText)")
    p.b.run("document.getElementById('plan-stop').click()")
    assert "Stopped" in p.text("#plan-status") and p.b.run("!document.getElementById('plan-go').disabled")
    old = p.b.run(STEP)
    p.acts("document.querySelector('input[name=recompute][value=full]').click()")
    assert p.b.run(STEP) > old  # the page still answers


def check_files(p):
    p.open({})
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "config.json"
        config.write_text(json.dumps(CONFIG))
        before = p.b.run(ANSWERS)
        p.b.give("#file", [ROOT / "tests/jobs/data/megatron.log"])
        p.b.wait(f"{ANSWERS} > {before} && /by the evidence/.test(document.getElementById('answer').innerText)")
        before = p.b.run(ANSWERS)
        p.b.give("#file", [config])
        p.b.wait("/12 layers, hidden 1024/.test(document.querySelector('.heading').innerText)")
        result = pathlib.Path(folder) / "result.json"
        result.write_text(json.dumps(p.native("estimate", SCENARIO)))
        p.b.give("#file", [result])
        assert "gpt3-13b" in p.b.wait("document.querySelector('#compare .two section')?.innerText")
        assert "no timeline" in p.b.wait("document.getElementById('compare-actions').innerText")
        order = pathlib.Path(folder) / "order.csv"
        order.write_text("0F0,0B0\n1B0,1F0\n")
        p.b.drop([order])
        p.b.wait(
            "!document.getElementById('laboratory').hidden && /not legal/.test(document.getElementById('laboratory').innerText)"
        )
        assert "comes before 1F0" in p.text("#lab-faults")


NCCL = """# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20
#
# Using devices
{devices}#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
   268435456      67108864     float     sum      -1   1200.0  223.7  391.5      0   1200.0  223.7  391.5      0
  1073741824     268435456     float     sum      -1   4300.0  249.7  437.0      0   4300.0  249.7  437.0      0
"""


def check_measurements(p):
    """A table of nccl-tests and a trace of PyTorch's profiler, dropped one after the other, count as they do natively."""
    devices = "".join(
        f"#  Rank  {i} Group  0 Pid   10{i} on      n0 device  {i} [0x07] NVIDIA H100 80GB HBM3\n" for i in range(8)
    )
    with tempfile.TemporaryDirectory() as folder:
        table = pathlib.Path(folder, "all_reduce.txt")
        table.write_text(NCCL.format(devices=devices))
        trace = ROOT / "tests/jobs/data/kineto-2-steps.json"
        p.open()
        given = []
        for file in (table, trace):
            p.drop(file)
            given += ["--evidence", str(file)]
            expected = p.native("estimate", SCENARIO, *given)
            shown = f"document.getElementById('remarks-title').parentElement.innerText.includes('{file.name}')"
            p.b.wait(f"{STEP} === {expected['metrics']['step_time_s']} && {shown}")
            piece = expected["evidence"]["pieces"][-1]
            assert piece.get("left_out", piece["what"]) in p.text("#predict"), (piece, p.text("#predict"))
        # A table that was cut off, and files of no use: the reason, and the answer stays.
        step = p.b.run(STEP)
        broken = pathlib.Path(folder, "broken.txt")
        broken.write_text(table.read_text().replace("1200.0  223.7", "1200.0", 1))
        wrong = {"notes.txt": "bought two of these\n", "config.json": '{"model_type": "llama", ', "data.json": '{"a": 1}'}
        for name, text in wrong.items():
            pathlib.Path(folder, name).write_text(text)
        for file in (broken, *(pathlib.Path(folder, name) for name in wrong)):
            p.b.run("document.getElementById('status').textContent = ''")
            p.b.drop([file])
            said = p.b.wait("(text => !text.startsWith('Reading') && text)(document.getElementById('status').innerText)")
            assert file.name in said, said
            assert p.b.run(STEP) == step and not p.text("#faults"), p.text("#faults")
        # A scenario of the name under which the page keeps its own.
        own = pathlib.Path(folder, "page.yaml")
        own.write_text((ROOT / "scenarios/examples/gpt2-large-rtx3090x8.yaml").read_text())
        p.drop(own)
        p.b.wait("document.querySelector('.heading').innerText.startsWith('gpt2-large')")


def check_share(p):
    """The link, opened anew, is the same prediction; so is one with a file in it."""
    p.open({**SCENARIO, "recompute": "selective"})
    step = p.b.run(STEP)
    p.b.run("document.getElementById('take-link').click()")
    link = p.b.wait("document.getElementById('take-text').innerText")
    p.b.open(link)
    p.b.wait(READY)
    assert p.b.run(STEP) == step, link
    p.b.run("document.getElementById('take-scenario').click()")
    assert "gpt3-13b" in p.b.wait("document.getElementById('take-text').innerText")
    p.b.run(
        "window.taken = []; const made = URL.createObjectURL; URL.createObjectURL = b => { b.text().then(t => taken.push(t)); return made(b); }"
    )
    for button, begin in (("svg", "<svg"), ("report", "<!doctype html>"), ("trace", "{"), ("result", "{")):
        p.b.run(f"taken.length = 0; document.getElementById('take-{button}').click()")
        taken = p.b.wait("taken[0]?.slice(0, 20)")
        assert taken.lower().startswith(begin), (button, taken)
    p.b.run("document.getElementById('take-trainer').value = 'megatron-core'; document.getElementById('take-flags').click()")
    p.b.wait("/--pipeline-model-parallel-size 4/.test(document.getElementById('take-text').innerText)")


def check_print(p):
    p.open(dark=True)
    p.b.wait("document.querySelector('#predict canvas').timeline?.data")
    p.b.paper(True)
    corner = "[...document.querySelector('#predict canvas').getContext('2d').getImageData(1, 1, 1, 1).data].join()"
    p.b.run("document.querySelector('#predict canvas').timeline.drawNow()")
    assert p.b.run(corner) == "255,255,255,255", p.b.run(corner)  # ink on paper, also from a dark screen
    assert p.b.run("getComputedStyle(document.getElementById('controls')).display") == "none"
    assert len(p.b.pdf()) > 20000
    p.b.paper(False)


def check_compare(p):
    p.open()
    p.acts("document.getElementById('keep').click()")
    p.put("field-schedule", "zb-h1")
    assert "against before" in p.text("#answer")
    p.acts("document.querySelector('[data-view=compare]').click()")
    table = p.b.wait("document.querySelector('#compare table')?.innerText")
    assert "step time" in table and "−" in table, table
    # Its backward passes are split: another plan, and the first pass that only one has is named.
    differs = p.b.wait("document.getElementById('compare-differs')?.innerText")
    assert "only “before” has 0B0 on device 0" in differs, differs
    # Sequence parallelism changes the times of the same passes: action by action, as the program compares.
    now = {**SCENARIO, "parallel.sequence_parallel": "true"}
    with tempfile.TemporaryDirectory() as folder:
        p.native("estimate", SCENARIO, "-o", f"{folder}/a")
        p.native("estimate", now, "-o", f"{folder}/b")
        done = subprocess.run(
            [p.native_program, "compare", f"{folder}/a", f"{folder}/b", "--json"], capture_output=True, text=True
        )
    worst = json.loads(done.stdout)["worst"]
    before = urllib.parse.quote("&".join(f"{k}={v}" for k, v in SCENARIO.items()), safe="")
    p.open(now, f"view=compare&before={before}")
    rows = p.b.wait("[...document.querySelectorAll('#compare-actions button')].map(b => b.innerText)")
    assert rows == [f"{row['action']} on device {row['device']}" for row in worst], (rows, worst)
    p.b.run("document.querySelector('#compare-actions button').click()")
    reading = p.text("#compare .reading")
    assert re.match(rf"rank \d+, now: .*stage {re.match('[0-9]+', worst[0]['action'])[0]}, ", reading), reading
    assert p.b.run(
        "(t => t.marks.length >= 2 && t.to - t.from < t.data.end / 2)(document.querySelector('#compare canvas').timeline)"
    )


def check_laboratory(p):
    """zb-v at even costs on 4 ranks and 8 microbatches: 3 units of work a pass, 48 on a rank, 51 with the way down the V and back."""
    p.open({}, "view=laboratory")
    assert "51" in p.text("#laboratory .cards") and "5.9 %" in p.text("#laboratory .cards")
    p.b.wait("/meets the proved bound 51/.test(document.getElementById('lab-bound').innerText)")
    p.put("lab-W", "0.5")
    p.put("lab-family", "1f1b")
    done = subprocess.run(
        [
            p.native_program,
            "schedule",
            "1f1b",
            "--ranks",
            "4",
            "--microbatches",
            "8",
            "--costs",
            "F=1,I=1,W=0.5,comm=0",
            "--json",
        ],
        capture_output=True,
    )
    makespan = json.loads(done.stdout)["makespan"]
    assert f"{makespan:g}" in p.text("#laboratory .cards"), (makespan, p.text("#laboratory .cards"))
    p.b.run("document.getElementById('lab-arena-go').click()")
    assert "interleaved-zero-bubble" in p.b.wait("document.querySelector('#lab-arena table')?.innerText", 60)


def check_links(p):
    p.open(more="view=links")
    p.b.wait("document.querySelectorAll('#links table').length == 2", 60)


def check_timeline(p):
    p.open()
    p.b.wait("document.querySelector('#predict canvas').timeline?.data")
    p.b.run("document.querySelector('#predict canvas').focus()")
    p.b.key("ArrowRight", number=39)
    first = p.text("#predict .reading")
    assert first.startswith("rank 0: F forward of microbatch 0"), first
    p.b.key("ArrowRight", number=39)
    assert "microbatch 1" in p.text("#predict .reading")
    p.b.key("+", number=187, text="+")
    assert abs(p.b.run("(t => (t.to - t.from) / t.data.end)(document.querySelector('#predict canvas').timeline)") - 0.5) < 1e-9


def check_keyboard(p):
    """Tab reaches every control of every view, and each has a name."""
    for view in VIEWS:
        p.open(more=f"view={view}")
        p.b.run("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        time.sleep(0.5)
        radios = "e => e.type !== 'radio' || e.checked"
        wanted = p.b.run(
            f"{VISIBLE}.filter({radios}).forEach((e, i) => {{ e.dataset.stop = i; }}); {VISIBLE}.filter({radios}).length"
        )
        p.b.run(
            "document.activeElement.blur(); window.reached = new Set(); document.addEventListener('focusin', e => window.reached.add(e.target))"
        )
        for _ in range(wanted + 8):
            p.b.key("Tab", number=9)
        missed = p.b.run(f"{VISIBLE}.filter({radios}).filter(e => !window.reached.has(e)).map(e => e.outerHTML.slice(0, 90))")
        assert not missed, (view, missed)
        nameless = p.b.run(
            f"""{VISIBLE}.filter(e => !(e.ariaLabel || e.labels?.length || e.innerText?.trim() || e.title || e.getAttribute('aria-labelledby')))
          .map(e => e.outerHTML.slice(0, 90))"""
        )
        assert not nameless, (view, nameless)


def check_editable_report(p):
    """A report with its result inside: the page predicts it again, and a change is compared with the result."""
    with tempfile.TemporaryDirectory() as folder:
        for call in (
            ["estimate", ROOT / "scenarios/examples/gpt2-large-rtx3090x8.yaml", "-o", f"{folder}/out"],
            ["report", f"{folder}/out", "--editable", "-o", f"{folder}/page.html"],
        ):
            done = subprocess.run([p.native_program, *map(str, call)], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        page = pathlib.Path(folder, "page.html")
        p.b.open(page.as_uri())
        p.b.wait(READY)
        step = json.loads(pathlib.Path(folder, "out/result.json").read_text())["metrics"]["step_time_s"]
        p.b.wait(f"{STEP} === {step}")
        p.put("field-schedule", "gpipe")
        p.b.wait(f"{STEP} > {step}")
        p.acts("document.querySelector('[data-view=compare]').click()")
        p.b.wait("document.getElementById('compare').innerText.includes('gpipe')")
        assert re.search(r"step time\t675.3 ms\t\d+.\d ms\t\+\d", p.text("#compare")), p.text("#compare")
        others = [r for r in p.b.requests if not r.startswith((page.as_uri(), "blob:", "data:", "about:"))]
        assert not others, others
        p.b.forget()


def check_documents(p):
    """Every address that a document gives opens without a fault."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    found = [(page, address) for page in pages for address in re.findall(r"<!-- page: ?(\S*) ?-->", page.read_text())]
    assert len(found) >= 3
    for page, address in found:
        p.b.open(f"{p.base}#{address}")
        p.b.wait(READY)
        assert not p.b.run("document.getElementById('faults').innerText + document.getElementById('status').innerText"), (
            page,
            address,
        )


def check_widths(p, pictures):
    for width in (max(360, p.b.narrowest), 768, 1440):
        for dark in (False, True):
            for view in VIEWS:
                p.open({}, f"view={view}", width=width, dark=dark)
                p.b.run("new Promise(done => setTimeout(done, 700))")
                extent = p.b.run("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
                assert extent[0] <= extent[1], (width, view, extent)
                if pictures:
                    p.b.shot(pictures / f"{view}-{width}-{'dark' if dark else 'light'}.png", whole=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("web", type=pathlib.Path)
    parser.add_argument("panpipe")
    parser.add_argument("--pictures", type=pathlib.Path, help="write screenshots into this folder")
    parser.add_argument("--only", help="checks whose name holds this")
    parser.add_argument("--firefox", action="store_true", help="in Firefox; links and plans alike, windows from 450 pixels on")
    options = parser.parse_args()
    driver = firefox if options.firefox else browser
    program = driver.find()
    if not program or not (options.web / "panpipe.html").exists():
        required = os.environ.get("PANPIPE_PAGE") == "required"
        print(
            ("missing: no " if required else "skipped: no ")
            + (
                ("Firefox (apt-get install firefox-esr)" if options.firefox else "Chromium (apt-get install chromium)")
                if not program
                else f"page in {options.web} (make web)"
            )
        )
        return 1 if required else 77
    if options.pictures:
        options.pictures.mkdir(parents=True, exist_ok=True)
    file_page, served_page = (options.web / "panpipe.html").resolve().as_uri(), browser.served(options.web)
    everywhere = (check_figures, check_plan)
    once = (
        check_drag,
        check_machine,
        check_example,
        check_errors,
        check_stop,
        check_files,
        check_measurements,
        check_share,
        check_print,
        check_compare,
        check_laboratory,
        check_links,
        check_editable_report,
    )
    once += (check_documents, check_timeline, check_keyboard, functools.partial(check_widths, pictures=options.pictures))
    runs = [(check, page) for check in everywhere for page in (file_page, served_page)] + [(check, file_page) for check in once]
    failed, b = 0, driver.Browser(program)
    try:
        for check, page in runs:
            name = getattr(check, "func", check).__name__
            if options.only and options.only not in name:
                continue
            b.forget()
            begin = time.monotonic()
            try:
                check(Page(b, options.panpipe, page))
                others = [r for r in b.requests if not r.startswith((page.rsplit("/", 1)[0], "blob:", "data:", "about:"))]
                assert not others, f"requests: {others}"
                assert not (console := b.console), f"console: {console}"
                print(f"{name}: ok, {time.monotonic() - begin:.1f} s ({page.split(':')[0]})", flush=True)
            except (AssertionError, TimeoutError, RuntimeError) as error:
                failed += 1
                print(f"{name}: FAILED ({page.split(':')[0]}): {error!r}; console {b.console[:3]}", flush=True)
    finally:
        b.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
