#!/usr/bin/env python3
"""packaging/wheel/check.py passes a wheel that is in order and names the fault in each of those that are not.

The wheels are made up: small shared libraries with the names and the needs of the real ones."""

import pathlib
import shutil
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "packaging" / "wheel"))
import check  # noqa: E402
import parts as parts_file  # noqa: E402

DECLARED = parts_file.read()["part"]
problems = []


def library(path, needs=(), search=None, text=""):
    """A shared library that wants the libraries `needs` (of which empty ones are made in a folder that is thrown away)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        shared = ["g++", "-shared", "-nostdlib", "-Wl,--no-as-needed", "-o"]
        for need in needs:
            subprocess.run([*shared, folder / need, f"-Wl,-soname,{need}", "-x", "c", "/dev/null"], check=True)
        (folder / "text.c").write_text(f'const char* text = "{text}";\n')
        found_by = [f"-Wl,-rpath,{search}"] if search else []
        source, wanted = ["-x", "c", folder / "text.c", "-x", "none"], [folder / need for need in needs]
        subprocess.run([*shared, path, *source, *wanted, *found_by], check=True)


MODULE = "panpipe/_core.cpython-311-x86_64-linux-gnu.so"
PROGRAM, EXECUTOR = "panpipe/_prefix/bin/panpipe", "panpipe/_prefix/lib/panpipe/panpipe-exec"
LIBRARIES, LICENCES = "panpipe.libs", "panpipe-0.1.0.dist-info/licenses"


def wheel_in_order(folder):
    library(folder / MODULE, ["libfmt-1a2b3c4d.so.9.1.0"], "$ORIGIN/../panpipe.libs")
    for name in ("__init__.py", "_core.pyi", "py.typed", "SKILL.md"):
        (folder / "panpipe" / name).touch()
    library(folder / PROGRAM, ["libfmt-1a2b3c4d.so.9.1.0", "libc.so.6"], "$ORIGIN/../../../panpipe.libs")
    library(folder / EXECUTOR, ["libtorch_cpu.so", "libc10.so", "libstdc++.so.6"])
    simulation = (folder / EXECUTOR).with_name("panpipe_simgrid.so")
    library(simulation, ["libsimgrid-0a1b2c3d.so.3.32"], "$ORIGIN/../../../../panpipe.libs")
    library(folder / LIBRARIES / "libfmt-1a2b3c4d.so.9.1.0", ["libm.so.6"])
    library(folder / LIBRARIES / "libsimgrid-0a1b2c3d.so.3.32")
    licences = folder / LICENCES
    licences.mkdir(parents=True)
    (licences / "LICENSE").write_text("Apache\n")
    (licences.parent / "WHEEL").write_text("Wheel-Version: 1.0\nTag: cp311-cp311-manylinux_2_36_x86_64\n\n")
    for part in DECLARED:
        (licences / f"{parts_file.slug(part)}-copyright").write_text("Permission is granted. " * 40)
    named = [dict(part, version=part.get("version", "1.0")) for part in DECLARED]
    (licences / "NOTICE").write_text(parts_file.notice(named, "2.11.0", True))


def expect(what, change, *wanted, build_paths=()):
    """A wheel in order that `change` spoils has exactly the faults that begin with `wanted`."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder) / "wheel"
        shutil.copytree(in_order, folder)
        change(folder)
        faults = check.faults_of(folder, build_paths)
    if len(faults) != len(wanted) or any(text not in fault for text, fault in zip(wanted, faults)):
        problems.append(f"{what}: expected {list(wanted)}, got {faults}")


def adds(path, *needs, **more):
    return lambda folder: library(folder / path, *needs, **more)


def removes(path):
    return lambda folder: (folder / path).unlink()


def cuts_notice(text):
    notice = f"{LICENCES}/NOTICE"
    return lambda folder: (folder / notice).write_text((folder / notice).read_text().replace(text, ""))


kept = tempfile.TemporaryDirectory()
in_order = pathlib.Path(kept.name) / "wheel"
wheel_in_order(in_order)
expect("a wheel in order", lambda folder: None)
expect(
    "an unknown library", adds(f"{LIBRARIES}/libzip-12345678.so.5.5"), f"{LIBRARIES}/libzip-12345678.so.5.5 is named by no part"
)
# libfmtlog is not libfmt.
expect("a known beginning", adds(f"{LIBRARIES}/libfmtlog.so.1"), f"{LIBRARIES}/libfmtlog.so.1 is named by no part")
gsl = f"{LIBRARIES}/libgsl-12345678.so.27.0.0"
expect("a library under the GPL", adds(gsl), f"{gsl} is named by no part", f"{gsl} is under the GPL")
expect(
    "a program that wants a library under the GPL",
    adds(PROGRAM, ["libns3-core.so.37", "libcholmod.so.3"]),
    f"{PROGRAM} wants libns3-core.so.37, which is under the GPL",
    f"{PROGRAM} wants libcholmod.so.3, which is under the GPL",
)
of_machine = f"{PROGRAM} wants libyaml-cpp.so.0.7, which is neither in the wheel"
expect("a program that wants a library of the machine", adds(PROGRAM, ["libyaml-cpp.so.0.7"]), of_machine)
expect("the program linked with torch", adds(PROGRAM, ["libc10.so"]), f"{PROGRAM} wants torch's libraries")
expect(
    "a search path of the machine",
    adds(EXECUTOR, ["libc10.so"], "/home/someone/.venv/lib"),
    f"{EXECUTOR} searches for libraries in /home/someone/.venv/lib",
)
expect(
    "a path of the machine in a program",
    adds(PROGRAM, text="/home/someone/panpipe/cli/main.cpp"),
    f"{PROGRAM} holds the text /home/someone/panpipe",
    build_paths=["/home/someone/panpipe"],
)
for part in DECLARED:
    name, licence = part["name"], f"{LICENCES}/{parts_file.slug(part)}-copyright"
    expect(f"no licence of {name}", removes(licence), f"the licence text of {name} is not in the wheel")
    expect(f"{name} is not in the NOTICE", cuts_notice(f"{name} "), f"the NOTICE does not name {name}")
expect("no licence of Panpipe", removes(f"{LICENCES}/LICENSE"), "Panpipe's own LICENSE is not in the wheel")
no_source = "the NOTICE does not say which archive is SimGrid's source"
expect("no source of SimGrid", cuts_notice("simgrid-3.32.tar.gz"), no_source)


def without_executor(folder):
    """Torch's headers are inside only where the executor is."""
    (folder / EXECUTOR).unlink()
    (folder / LICENCES / "PyTorch-copyright").unlink()


def stable_module(folder):
    (folder / MODULE).rename(folder / "panpipe/_core.abi3.so")


def stable_wheel(folder):
    stable_module(folder)
    (folder / "panpipe-0.1.0.dist-info/WHEEL").write_text("Tag: cp312-abi3-manylinux_2_36_x86_64\n")


expect("a wheel for the stable ABI", stable_wheel)
expect(
    "a module for other interpreters than the tag's",
    stable_module,
    "panpipe/_core.abi3.so is built for abi3, but the wheel's tag promises cp311",
)
expect("no module", removes(MODULE), "one Python module panpipe/_core.*so is expected, the wheel has []")
expect(
    "two modules",
    lambda folder: shutil.copy(folder / MODULE, folder / "panpipe/_core.abi3.so"),
    "one Python module panpipe/_core.*so is expected",
)
for name in ("__init__.py", "_core.pyi", "py.typed", "SKILL.md"):
    expect(f"no {name}", removes(f"panpipe/{name}"), f"panpipe/{name} is not in the wheel")
expect("a module that wants torch", adds(MODULE, ["libc10.so"]), f"{MODULE} wants torch's libraries")
expect("a wheel without the executor", without_executor)
expect(
    "no metadata",
    lambda folder: shutil.rmtree(folder / "panpipe-0.1.0.dist-info"),
    f"{MODULE} is built for cp311, but the wheel's tag promises nothing",
    "Panpipe's own LICENSE is not in the wheel",
    *(text for part in DECLARED for text in (f"the licence text of {part['name']}", f"the NOTICE does not name {part['name']}")),
    "the NOTICE does not say which archive",
)
print("\n".join(problems) or "every fault is named")
sys.exit(1 if problems else 0)
