#!/usr/bin/env python3
"""Opens the pages that panpipe writes in a headless browser: no errors on the console, and sorting, zoom and hover work.

Exits 77 (skipped) where there is no Chromium. `--keep DIR` leaves the pages and pictures of them there, to be looked at.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[3]
GPT2 = "scenarios/examples/gpt2-large-rtx3090x8.yaml"

# Runs in the page after it was read; what it finds wrong becomes the document's title.
REPORT_CHECKS = """
const wrong = [];
const expect = (what, good) => { if (!good) wrong.push(what); };
const canvas = document.querySelector("canvas.timeline"), { timeline } = canvas, { end } = timeline.data;
const press = (key) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key }));
timeline.drawNow();
document.querySelector("[aria-label='Zoom in']").click();
expect("zoom around the middle", Math.abs(timeline.from - end / 4) < 1e-9 * end && Math.abs(timeline.to - end * 3 / 4) < 1e-9 * end);
press("-");
press("-");
expect("the whole step is the most", timeline.from === 0 && timeline.to === end);
press("+");
press("0");
expect("whole", timeline.to === end);
press("ArrowRight");
const reading = document.querySelector(".reading").textContent;
expect("reading " + reading, /^rank 0(, estimated A)?: F forward of microbatch 0, stage 0, 0 to [0-9.]+ ms$/.test(reading));
const { left, top } = canvas.getBoundingClientRect(), { layout } = timeline, strip = layout.top + layout.box + 2;
const point = (name, x, y) => canvas.dispatchEvent(new PointerEvent(name, { clientX: left + x, clientY: top + y, pointerId: 1, bubbles: true }));
const sends = timeline.data.lanes[0].stripes[timeline.data.strips.indexOf("s-send")];
point("pointermove", timeline.view.x((sends.starts[0] + sends.ends[0]) / 2), strip + timeline.data.strips.indexOf("s-send") * (layout.strip + 1) + 1);
const hint = document.querySelector(".hint");
expect("hint " + hint.textContent, !hint.hidden && /: 0SEND_F0, [0-9.]+ to [0-9.]+ ms, [0-9.]+ MiB$/.test(hint.textContent));
const drawn = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data, colours = new Set();
for (let i = 0; i < drawn.length; i += 4) colours.add(drawn[i] << 16 | drawn[i + 1] << 8 | drawn[i + 2]);
expect("passes and memory are drawn, " + colours.size + " colours", colours.size > 20);
document.title = wrong.length ? "wrong: " + wrong.join("; ") : "checked";
"""
SWEEP_CHECKS = """
const wrong = [];
const expect = (what, good) => { if (!good) wrong.push(what); };
const table = document.querySelector("table.sortable"), heads = [...table.tHead.rows[0].cells];
const column = heads.findIndex((head) => head.textContent.startsWith("step time"));
const values = () => [...table.tBodies[0].rows].map((row) => Number(row.cells[column].dataset.v));
heads[column].firstElementChild.click();
let numbers = values().filter((value) => !isNaN(value));
expect("descending", numbers.every((value, i) => i === 0 || value <= numbers[i - 1]));
heads[column].firstElementChild.click();
numbers = values().filter((value) => !isNaN(value));
expect("ascending", numbers.length > 2 && numbers.every((value, i) => i === 0 || value >= numbers[i - 1]));
expect("without a number last", isNaN(values().at(-1)));
expect("aria-sort", heads[column].getAttribute("aria-sort") === "ascending");
document.querySelector(".plot .m title").parentElement.dispatchEvent(new PointerEvent("pointermove", { bubbles: true }));
expect("hint", !document.getElementById("hint").hidden && document.getElementById("hint").textContent.includes("schedule="));
document.title = wrong.length ? "wrong: " + wrong.join("; ") : "checked";
"""
# Every series has a mark of its own; a row's breakdown has parts; the band lies around the diagonal.
VALIDATION_CHECKS = """
const wrong = [];
const expect = (what, good) => { if (!good) wrong.push(what); };
for (const legend of document.querySelectorAll("figure .legend")) {
  const marks = [...legend.querySelectorAll("path")].map((path) => path.getAttribute("class") + path.getAttribute("d"));
  expect("marks of " + legend.textContent, new Set(marks).size === marks.length);
}
const [time] = document.querySelectorAll("svg.plot");
expect("points", time.querySelectorAll(".m").length > 200);
const band = time.querySelector(".band").getBBox(), line = time.querySelector(".diagonal").getBBox();
expect("band", band.width >= line.width && band.height >= line.height);
const broken_down = [...document.querySelectorAll("table.sortable tbody tr")].filter((row) => row.querySelectorAll("svg.parts rect").length > 1);
expect("breakdown of " + broken_down.length + " rows", broken_down.length > 200);
document.title = wrong.length ? "wrong: " + wrong.join("; ") : "checked";
"""
# On every page.
COMMON_CHECKS = """
const loaded = performance.getEntriesByType("resource").filter((entry) => !entry.name.startsWith("data:"));
if (loaded.length) document.title += "; loads " + loaded.map((entry) => entry.name).join(", ");
for (const part of document.querySelectorAll("figure svg, table, .timeline"))
  if (part.getBoundingClientRect().right > innerWidth + 1 && !part.closest(".wide")) document.title += "; wider than the window: " + part.outerHTML.slice(0, 60);
// Two figures beside each other in a wide window, one in a narrow one; letters of the same size in both.
const whole_width = document.querySelector("main").clientWidth;
for (const figure of document.querySelectorAll("figure:not(.timeline-figure)")) {
  const wide = figure.getBoundingClientRect().width, plot = figure.querySelector("svg.plot");
  if (wide < (innerWidth < 1100 ? 0.99 : 0.48) * whole_width || plot.getBoundingClientRect().width < 0.4 * wide)
    document.title += "; narrow figure: " + figure.textContent.slice(0, 40);
  for (const text of plot.querySelectorAll("text"))
    if (parseFloat(getComputedStyle(text).fontSize) < 12 || Math.hypot(text.getScreenCTM().a, text.getScreenCTM().b) < 0.99) document.title += "; small text: " + text.textContent;
}
dispatchEvent(new Event("beforeprint"));
if ([...document.querySelectorAll("details")].some((part) => !part.open)) document.title += "; folded on paper";
dispatchEvent(new Event("afterprint"));
if ([...document.querySelectorAll("details")].some((part) => part.open)) document.title += "; unfolded after printing";
"""


def browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return name
    return None


NARROW = 500  # pixels: as narrow as Chromium makes a window


def open_page(program, page, extra=(), width=1400):
    options = (
        f"--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --window-size={width},1800 "
        "--virtual-time-budget=4000 --enable-logging=stderr --log-level=0"
    )
    return subprocess.run([program, *options.split(), *extra, page.as_uri()], capture_output=True, text=True, timeout=120)


def check(program, page, checks, problems, width=1400):
    probe = page.with_suffix(".probe.html")
    probe.write_text(
        page.read_text(encoding="utf-8").replace("</body>", "<script>{" + checks + "}{" + COMMON_CHECKS + "}</script></body>"),
        encoding="utf-8",
    )
    done = open_page(program, probe, ["--dump-dom"], width)
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.S)
    if not title or title.group(1) != "checked":
        problems.append(f"{page.name} at {width} pixels: {title.group(1) if title else 'no document: ' + done.stderr[-500:]}")
    problems += [f"{page.name}: {line}" for line in done.stderr.splitlines() if "CONSOLE" in line]
    probe.unlink()


def main():
    program = browser()
    if program is None:
        print("skipped: there is no Chromium here (Debian: chromium)")
        return 77
    keep = pathlib.Path(sys.argv[sys.argv.index("--keep") + 1]) if "--keep" in sys.argv else None
    panpipe = str(pathlib.Path(sys.argv[1]) / "panpipe")
    problems = []
    with tempfile.TemporaryDirectory() as work:
        folder = keep or pathlib.Path(work)
        folder.mkdir(parents=True, exist_ok=True)

        def run(*arguments):
            subprocess.run(
                [panpipe, *map(str, arguments)], cwd=root, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )

        run("estimate", GPT2, "-o", folder / "estimated")
        run("estimate", GPT2, "--set", "schedule=zb-h1", "-o", folder / "other")
        run("report", folder / "estimated", "-o", folder / "one.html")
        run("report", folder / "estimated", folder / "other", "-o", folder / "two.html")
        run("sweep", GPT2, "--over", "schedule=1f1b,zb-h1,stp", "--over", "parallel.pipeline=2,4,8", "-o", folder / "sweep")
        run("validate", "validation/published/runs.csv", "-o", folder / "validation")
        pages = (
            ("one.html", REPORT_CHECKS),
            ("two.html", REPORT_CHECKS),
            ("sweep/sweep.html", SWEEP_CHECKS),
            ("validation/validation.html", VALIDATION_CHECKS),
        )
        for page, checks in pages:
            check(program, (folder / page).resolve(), checks, problems)
            if page in ("one.html", "sweep/sweep.html"):
                check(program, (folder / page).resolve(), 'document.title = "checked";', problems, NARROW)
            if keep:
                for mode, extra in (("light", []), ("dark", ["--blink-settings=preferredColorScheme=0"])):
                    picture = (folder / page).with_suffix(f".{mode}.png")
                    open_page(program, (folder / page).resolve(), [f"--screenshot={picture}", *extra])
                open_page(
                    program, (folder / page).resolve(), [f"--screenshot={(folder / page).with_suffix('.narrow.png')}"], NARROW
                )
                open_page(program, (folder / page).resolve(), [f"--print-to-pdf={(folder / page).with_suffix('.pdf')}"])
    print(
        "\n".join(problems)
        or "four pages, no errors on the console, nothing loaded; sorting, zoom, keys, hints and printing work"
    )
    return 1 if problems else 0


sys.exit(main())
