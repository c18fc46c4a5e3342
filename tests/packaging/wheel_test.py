#!/usr/bin/env python3
"""The wheels in build/wheel/, where `make wheel` has built one (77, a skip, where not): their metadata, and the program and the package
after pip install into a fresh environment, without and with torch. tools/try-wheel tries a wheel on a bare system."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

root = pathlib.Path(__file__).resolve().parents[2]
wheels = sorted((root / "build" / "wheel").glob("*.whl"))
if not wheels:
    print("no wheel in build/wheel/: make wheel builds it")
    sys.exit(77)
version = (root / "VERSION").read_text().strip()
info = f"panpipe-{version}.dist-info"
problems = []


def expect(condition, text):
    if not condition:
        problems.append(text)


def judge_content(wheel):
    # Of the release of CPython that built it, or from 3.12 on of the stable ABI.
    expect(
        re.fullmatch(rf"panpipe-{re.escape(version)}-(cp31[01]-cp31[01]|cp312-abi3)-manylinux_2_36_x86_64\.whl", wheel.name),
        f"unexpected name {wheel.name}",
    )
    checked = subprocess.run(
        [sys.executable, root / "packaging/wheel/check.py", wheel, str(root)], capture_output=True, text=True
    )
    expect(checked.returncode == 0, checked.stdout + checked.stderr)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(f"{info}/METADATA").decode().split("\n\n", 1)[0].splitlines()
        scripts = archive.read(f"{info}/entry_points.txt").decode()
    declared = sorted(line.split(": ", 1)[1] for line in metadata if line.startswith("License-File: "))
    shipped = sorted(
        name.removeprefix(f"{info}/licenses/")
        for name in names
        if name.startswith(f"{info}/licenses/") and not name.endswith("/")
    )
    expect(declared == shipped and "NOTICE" in declared, f"licence files in the metadata {declared}, in the wheel {shipped}")
    expression = next((line for line in metadata if line.startswith("License-Expression: ")), "")
    for term in ("Apache-2.0", "LGPL-2.1-only", "MPL-2.0", "MIT", "BSD-3-Clause"):
        expect(term in expression, f"{term} is not in '{expression}'")
    expect(f"Version: {version}" in metadata, "the version is not VERSION's")
    expect(
        re.search(r"^Requires-Dist: torch==2\.11\.\*; extra == .run.$", "\n".join(metadata), re.M),
        "panpipe[run] does not ask for torch 2.11",
    )
    for extra, package in (("certificate", "ortools"), ("notebooks", "jupyterlab")):
        expect(
            re.search(rf"^Requires-Dist: {package}.*; extra == .{extra}.$", "\n".join(metadata), re.M),
            f"panpipe[{extra}] does not ask for {package}",
        )
    expect(
        not any(line.startswith("Requires-Dist:") and "extra" not in line for line in metadata),
        "panpipe alone asks for other packages",
    )
    expect("panpipe = panpipe._program:main" in scripts.replace("=", " = ").replace("  ", " "), "no command panpipe")
    for source in (root / "python/panpipe").rglob("*"):
        name = str(pathlib.Path("panpipe") / source.relative_to(root / "python/panpipe"))
        expect(
            source.is_dir() or "__pycache__" in name or name in names,
            f"{name} is not in the wheel; it was built from an earlier commit?",
        )
    for name in names:
        # Tests, benchmarks, headers and archives of the build have no place in it.
        expect(
            not re.search(r"\.(a|hpp|h|o)$|/test_|/bench_|/replay_|/fuzz_|__pycache__", name), f"{name} has no place in the wheel"
        )
    return "panpipe/_prefix/lib/panpipe/panpipe-exec" in names


def environment(folder, wheel):
    """A fresh virtual environment with the wheel and nothing else: (its Python, its site-packages)."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = pathlib.Path(folder, "bin", "python3")
    site = next(pathlib.Path(folder).glob("lib/python3*/site-packages"))
    options = "-q --disable-pip-version-check --root-user-action=ignore --no-index --no-deps --target"
    subprocess.run([sys.executable, "-m", "pip", "install", *options.split(), site, wheel], check=True)
    return python, site


def judge_installed(wheel, has_executor, folder):
    python, site = environment(folder, wheel)
    prefix = site / "panpipe" / "_prefix"
    bare = {"PATH": "/usr/bin:/bin", "HOME": folder}

    def run(*command):
        return subprocess.run([python, *command], capture_output=True, text=True, env=bare, cwd=folder)

    shown = run("-m", "panpipe", "--version")
    expect(shown.returncode == 0 and version in shown.stdout, f"--version: {shown}")
    # Libraries come from the wheel, or are those that its tag promises: none by chance from this machine.
    for file in [
        prefix / "bin/panpipe",
        *site.glob("panpipe/*.so"),
        *prefix.glob("lib/**/*.so"),
        *site.glob("panpipe.libs/*.so*"),
    ]:
        if file.name == "panpipe_nccl.so":
            continue  # wants torch's
        for line in subprocess.run(["ldd", file], capture_output=True, text=True).stdout.splitlines():
            library = line.split()[0]
            if "=>" in line and not re.match(r"lib(c|m|z|stdc\+\+|gcc_s|pthread|dl|rt)\.so", library):
                expect(str(folder) in os.path.realpath(line.split("=>")[1].split()[0]), f"{file.name}: {line.strip()}")
    simulated = run("-m", "panpipe", "simulate", "examples/gpt2-large-rtx3090x8.yaml")
    expect(simulated.returncode == 0, f"simulate: {simulated.stderr}")
    if not has_executor:
        expect(
            run("-m", "panpipe", "run", "runs/gpt-small-cpu-x2.yaml").returncode == 3, "run without executor does not end with 3"
        )
    alone = run("-I", root / "packaging/wheel/try_package.py")
    expect(alone.returncode == 0 and not alone.stderr, f"the package: {alone.stdout}{alone.stderr}")
    # Torch of the source tree's environment, where that is of the same Python: both in one process.
    lent = root / ".venv" / site.relative_to(folder)
    if (lent / "torch").is_dir():
        (site / "lent.pth").write_text(f"{lent}\n")
        beside = run("-I", root / "packaging/wheel/try_package.py", "torch")
        expect(
            beside.returncode == 0 and "nanobind" not in beside.stderr,
            f"the package beside torch: {beside.stdout}{beside.stderr}",
        )


def runs_here(wheel):
    release, abi = wheel.name.split("-")[2:4]
    return sys.version_info >= (3, 12) if abi == "abi3" else release == f"cp3{sys.version_info.minor}"


for wheel in wheels:
    has_executor = judge_content(wheel)
    if runs_here(wheel):
        with tempfile.TemporaryDirectory() as folder:
            judge_installed(wheel, has_executor, folder)
print(
    "\n".join(problems)
    or "".join(f"{wheel.name}: {'content and package' if runs_here(wheel) else 'content'} in order\n" for wheel in wheels)
)
sys.exit(1 if problems else 0)
