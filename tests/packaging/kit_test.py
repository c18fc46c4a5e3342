#!/usr/bin/env python3
"""The kit's script with the built program, at tiny sizes on the CPU: kit_test.py PANPIPE. It measures, predicts and runs, keeps a failing
job's error, and leaves a table that `panpipe validate` reads. The archive is that of a wheel, made here of the program alone."""

import csv
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

root = pathlib.Path(__file__).resolve().parents[2]
program = pathlib.Path(sys.argv[1]).resolve()
problems = []


def expect(condition, text):
    if not condition:
        problems.append(text)


def run(arguments, kit=root / "packaging/kit", **environment):
    return subprocess.run(
        [kit / "run", "--program", program, *arguments], capture_output=True, text=True, env=dict(os.environ, **environment)
    )


def judge_measured(torch, folder):
    # What leads a Python or a program astray, if it were looked at.
    evil = folder.parent / "evil"
    evil.mkdir()
    for name in ("json.py", "argparse.py"):
        (evil / name).write_text("raise SystemExit(1)\n")
    hostile = {"PYTHONPATH": str(evil), "LC_ALL": "C", "PANPIPE_DATA": "/nowhere", "TMPDIR": "/nowhere"}
    # Time enough for a busy machine: two jobs of tiny sizes take seconds.
    begun = time.monotonic()
    done = run(["--out", folder, "--device", "cpu", "--minutes", "2", "--jobs", "2"], PANPIPE_LIBTORCH=torch, **hostile)
    expect(time.monotonic() - begun < 200, f"two minutes took {time.monotonic() - begun:.0f} s")
    expect(done.returncode == 0, f"the kit failed: {done.stdout}{done.stderr}")
    if problems:
        return
    expect(not (folder / ".scratch").exists(), "the scratch folder is left")
    summary = (folder / "summary.md").read_text()
    expect("With tiny sizes: it shows that the kit works here, and says nothing of a card" in summary, summary)
    rows = list(csv.DictReader(open(folder / "runs.csv")))
    expect({row["framework"] for row in rows} == {"panpipe", "eager-sdpa"}, f"frameworks of {rows}")
    for row in rows:
        expect(float(row["step_s"]) > 0 and (folder / row["scenario"]).is_file(), f"row {row}")
        expect(f"| {row['id'].rsplit('-panpipe')[0].rsplit('-eager')[0]} |" in summary, f"{row['id']} is not in the summary")
    validated = subprocess.run([program, "validate", folder, "--json"], capture_output=True, text=True)
    expect(validated.returncode == 0, f"validate: {validated.stderr}")
    found = json.loads(validated.stdout)["rows"]
    expect(len(found) == len(rows), f"validate reads {len(found)} of {len(rows)} rows")
    expect(all(row.get("predicted_s", 0) > 0 for row in found), f"rows without a prediction: {found}")


def judge_models():
    """The plain models have the parameters of the scenarios' models."""
    sys.path.insert(0, str(root / "packaging/kit"))
    import jobs
    import models

    with tempfile.TemporaryDirectory() as folder:
        for job in jobs.jobs(tiny=True):
            if job["kind"] == "experts":
                (pathlib.Path(folder) / f"{job['name']}.config.json").write_text(json.dumps(jobs.mixtral_config(job["size"])))
            scenario = pathlib.Path(folder) / "s.yaml"
            scenario.write_text(jobs.scenario(job, "panpipe", "h200-sxm"))
            out = subprocess.run([program, "estimate", scenario, "--json"], capture_output=True, text=True)
            expect(out.returncode == 0, f"{job['name']}: {out.stderr}")
            stated = json.loads(out.stdout)["metrics"]["parameters"] if out.returncode == 0 else 0
            plain = sum(p.numel() for p in models.Model(job["kind"], job["size"], False).parameters())
            expect(plain == stated, f"{job['name']}: {plain} parameters in plain PyTorch, {stated} in the scenario")


def judge_stopped(torch, folder):
    """Ctrl-C ends what runs, keeps what there is, and reports that."""
    child = subprocess.Popen(
        [root / "packaging/kit/run", "--program", program, "--out", folder, "--device", "cpu", "--minutes", "4"],
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ, PANPIPE_LIBTORCH=torch),
    )
    said = [child.stdout.readline() for _ in range(2)]  # torch, doctor: then the selftest runs
    begun = time.monotonic()
    child.send_signal(signal.SIGINT)
    rest = child.communicate()[0]
    expect(time.monotonic() - begun < 20, f"it ended {time.monotonic() - begun:.0f} s after Ctrl-C")
    expect(
        child.returncode == 130 and "stopped; what was measured until then is kept" in rest, f"{child.returncode}: {said} {rest}"
    )
    expect("- stopped" in (folder / "summary.md").read_text(), "the summary does not say that it was stopped")


def judge_refusals(folder):
    (folder / "full").mkdir()
    (folder / "full" / "a").write_text("")
    refused = run(["--out", folder / "full"])
    expect(refused.returncode == 2 and "is not empty: name a new folder" in refused.stderr, refused.stderr)
    refused = run(["--out", folder / "full" / "a"])
    expect(refused.returncode == 2 and "name a folder that can be written to" in refused.stderr, refused.stderr)
    lacking = run(["--out", folder / "new", "--device", "cpu"], PANPIPE_LIBTORCH="/nowhere/torch")
    expect(
        lacking.returncode == 3 and "PANPIPE_LIBTORCH=/nowhere/torch: there is no such folder" in lacking.stderr, lacking.stderr
    )
    expect("Traceback" not in lacking.stderr, lacking.stderr)


def judge_release(folder):
    """The unpacked archive takes no other release of torch than that of its file RELEASE."""
    with tarfile.open(folder / "kit.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    kit, torch = folder / "panpipe-kit", folder / "other" / "torch"
    shown = subprocess.run([kit / "panpipe", "--version"], capture_output=True, text=True)
    expect(shown.returncode == 0, f"panpipe-kit/panpipe: {shown.stderr}")
    torch.mkdir(parents=True)
    (torch / "__init__.py").write_text("__version__ = '2.10.0'\nclass cuda:\n    is_available = staticmethod(lambda: False)\n")
    lacking = run(["--out", folder / "new"], kit, PANPIPE_LIBTORCH=str(torch))
    expect(lacking.returncode == 3 and "no Python here has torch 2.11" in lacking.stderr, lacking.stderr)
    expect("has torch 2.10.0" in lacking.stderr and "pip install 'torch==2.11.*'" in lacking.stderr, lacking.stderr)


def judge_archive(folder):
    wheel = folder / "panpipe-0.0.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(program, "panpipe/_prefix/bin/panpipe")
        archive.writestr("panpipe/_prefix/lib/panpipe/panpipe-exec", "")
        archive.writestr("panpipe/_prefix/lib/panpipe/panpipe-exec.libtorch", "version 2.11.0\n")
    packed = subprocess.run([sys.executable, root / "tools/kit", wheel, folder / "kit.tar.gz"], capture_output=True, text=True)
    expect(packed.returncode == 0, packed.stderr)
    with tarfile.open(folder / "kit.tar.gz") as archive:
        names = set(archive.getnames())
        expect(archive.getmember("panpipe-kit/run").mode & 0o100, "run is not executable")
        release = archive.extractfile("panpipe-kit/RELEASE").read().decode()
    expect(release == "Panpipe 0.0.0; torch 2.11\n", release)
    expect({"panpipe-kit/eager.py", "panpipe-kit/python/panpipe/_prefix/bin/panpipe"} <= names, str(names))


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        judge_refusals(folder)
        judge_archive(folder)
        judge_release(folder)
        found = importlib.util.find_spec("torch")
        built = program.parent / "panpipe-exec.libtorch"
        torch = built.read_text().split("folder ")[1].strip() if built.exists() else found and os.path.dirname(found.origin)
        if not torch:
            print("\n".join(problems) or "skipped: there is no torch")
            return 1 if problems else 77
        sys.path.insert(0, os.path.dirname(torch))
        judge_models()
        judge_measured(torch, folder / "measured")
        judge_stopped(torch, folder / "stopped")
    print("\n".join(problems) or "the kit measures, and its table is read")
    return 1 if problems else 0


sys.exit(main())
