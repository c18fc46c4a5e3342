#!/usr/bin/env python3
"""The wheel in build/wheel/, where `make wheel` has built one (77, a skip, where not): its metadata, and the program after pip install
in an empty folder. tools/try-wheel tries it on a bare system."""
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
wheel = wheels[-1]
problems = []


def expect(condition, text):
    if not condition:
        problems.append(text)


version = (root / "VERSION").read_text().strip()
expect(len(wheels) == 1, f"one wheel is expected, there are {[path.name for path in wheels]}")
# Of the release of CPython that built it, or from 3.12 on of the stable ABI.
expect(re.fullmatch(rf"panpipe-{re.escape(version)}-(cp31[01]-cp31[01]|cp312-abi3)-manylinux_2_36_x86_64\.whl", wheel.name), f"unexpected name {wheel.name}")
checked = subprocess.run([sys.executable, root / "packaging/wheel/check.py", wheel, str(root)], capture_output=True, text=True)
expect(checked.returncode == 0, checked.stdout + checked.stderr)

with zipfile.ZipFile(wheel) as archive:
    names = archive.namelist()
    info = f"panpipe-{version}.dist-info"
    metadata = archive.read(f"{info}/METADATA").decode().split("\n\n", 1)[0].splitlines()
    scripts = archive.read(f"{info}/entry_points.txt").decode()
has_executor = "panpipe/_prefix/lib/panpipe/panpipe-exec" in names
declared = sorted(line.split(": ", 1)[1] for line in metadata if line.startswith("License-File: "))
shipped = sorted(name.removeprefix(f"{info}/licenses/") for name in names if name.startswith(f"{info}/licenses/") and not name.endswith("/"))
expect(declared == shipped and "NOTICE" in declared, f"licence files in the metadata {declared}, in the wheel {shipped}")
expression = next((line for line in metadata if line.startswith("License-Expression: ")), "")
for term in ("Apache-2.0", "LGPL-2.1-only", "MPL-2.0", "MIT", "BSD-3-Clause"):
    expect(term in expression, f"{term} is not in '{expression}'")
expect(f"Version: {version}" in metadata, "the version is not VERSION's")
expect(re.search(r"^Requires-Dist: torch==2\.11\.\*; extra == .run.$", "\n".join(metadata), re.M), "panpipe[run] does not ask for torch 2.11")
expect(not any(line.startswith("Requires-Dist:") and "extra" not in line for line in metadata), "panpipe alone asks for other packages")
expect("panpipe = panpipe._program:main" in scripts.replace("=", " = ").replace("  ", " "), "no command panpipe")
for name in names:
    # Tests, benchmarks, headers and archives of the build have no place in it.
    expect(not re.search(r"\.(a|hpp|h|o)$|/test_|/bench_|/replay_|/fuzz_", name), f"{name} has no place in the wheel")

with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps", "--target", folder, wheel], check=True)
    prefix = pathlib.Path(folder, "panpipe", "_prefix")
    bare = {"PATH": "/usr/bin:/bin", "HOME": folder, "PYTHONPATH": folder}

    def panpipe(*arguments):
        return subprocess.run([sys.executable, "-m", "panpipe", *arguments], capture_output=True, text=True, env=bare, cwd=folder)

    shown = panpipe("--version")
    expect(shown.returncode == 0 and version in shown.stdout, f"--version: {shown}")
    # Libraries come from the wheel, or are those that its tag promises: none by chance from this machine.
    for file in [prefix / "bin/panpipe", *prefix.glob("lib/**/*.so"), *pathlib.Path(folder, "panpipe.libs").glob("*.so*")]:
        if file.name == "panpipe_nccl.so":
            continue  # wants torch's
        for line in subprocess.run(["ldd", file], capture_output=True, text=True).stdout.splitlines():
            library = line.split()[0]
            if "=>" in line and not re.match(r"lib(c|m|stdc\+\+|gcc_s|pthread|dl|rt)\.so", library):
                expect(str(folder) in os.path.realpath(line.split("=>")[1].split()[0]), f"{file.name}: {line.strip()}")
    scenario = prefix / "share/panpipe/examples/gpt2-large-rtx3090x8.yaml"
    estimated, simulated = panpipe("estimate", scenario), panpipe("simulate", scenario)
    expect(estimated.returncode == 0, f"estimate: {estimated.stderr}")
    expect(simulated.returncode == 0, f"simulate: {simulated.stderr}")
    if not has_executor:
        expect(panpipe("run", prefix / "share/panpipe/runs/gpt-small-cpu-x2.yaml").returncode == 3, "run without executor does not end with 3")
    imported = subprocess.run([sys.executable, "-c", "import panpipe; print(panpipe.__version__)"], capture_output=True, text=True, env=bare)
    expect(imported.stdout.strip() == version, f"panpipe.__version__: {imported}")
print("\n".join(problems) or f"{wheel.name} is in order")
sys.exit(1 if problems else 0)
