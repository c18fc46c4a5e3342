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
        for need in needs:
            subprocess.run(
                ["g++", "-shared", "-nostdlib", f"-Wl,-soname,{need}", "-o", folder / need, "-x", "c", "/dev/null"], check=True
            )
        (folder / "text.c").write_text(f'const char* text = "{text}";\n')
        subprocess.run(
            [
                "g++",
                "-shared",
                "-nostdlib",
                "-Wl,--no-as-needed",
                "-o",
                path,
                "-x",
                "c",
                folder / "text.c",
                "-x",
                "none",
                *(folder / need for need in needs),
                *([f"-Wl,-rpath,{search}"] if search else []),
            ],
            check=True,
        )


MODULE = "panpipe/_core.cpython-311-x86_64-linux-gnu.so"


def wheel_in_order(folder):
    library(folder / MODULE, ["libfmt-1a2b3c4d.so.9.1.0"], "$ORIGIN/../panpipe.libs")
    for name in ("__init__.py", "_core.pyi", "py.typed"):
        (folder / "panpipe" / name).touch()
    library(folder / "panpipe/_prefix/bin/panpipe", ["libfmt-1a2b3c4d.so.9.1.0", "libc.so.6"], "$ORIGIN/../../../panpipe.libs")
    library(folder / "panpipe/_prefix/lib/panpipe/panpipe-exec", ["libtorch_cpu.so", "libc10.so", "libstdc++.so.6"])
    library(
        folder / "panpipe/_prefix/lib/panpipe/panpipe_simgrid.so",
        ["libsimgrid-0a1b2c3d.so.3.32"],
        "$ORIGIN/../../../../panpipe.libs",
    )
    library(folder / "panpipe.libs/libfmt-1a2b3c4d.so.9.1.0", ["libm.so.6"])
    library(folder / "panpipe.libs/libsimgrid-0a1b2c3d.so.3.32")
    licences = folder / "panpipe-0.1.0.dist-info" / "licenses"
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


kept = tempfile.TemporaryDirectory()
in_order = pathlib.Path(kept.name) / "wheel"
wheel_in_order(in_order)
LICENCES = "panpipe-0.1.0.dist-info/licenses"
expect("a wheel in order", lambda folder: None)
expect(
    "an unknown library",
    lambda folder: library(folder / "panpipe.libs/libzip-12345678.so.5.5"),
    "panpipe.libs/libzip-12345678.so.5.5 is named by no part",
)
# libfmtlog is not libfmt.
expect(
    "a library with a known beginning",
    lambda folder: library(folder / "panpipe.libs/libfmtlog.so.1"),
    "panpipe.libs/libfmtlog.so.1 is named by no part",
)
expect(
    "a library under the GPL",
    lambda folder: library(folder / "panpipe.libs/libgsl-12345678.so.27.0.0"),
    "panpipe.libs/libgsl-12345678.so.27.0.0 is named by no part",
    "panpipe.libs/libgsl-12345678.so.27.0.0 is under the GPL",
)
expect(
    "a program that wants a library under the GPL",
    lambda folder: library(folder / "panpipe/_prefix/bin/panpipe", ["libns3-core.so.37", "libcholmod.so.3"]),
    "panpipe/_prefix/bin/panpipe wants libns3-core.so.37, which is under the GPL",
    "panpipe/_prefix/bin/panpipe wants libcholmod.so.3, which is under the GPL",
)
expect(
    "a program that wants a library of the machine",
    lambda folder: library(folder / "panpipe/_prefix/bin/panpipe", ["libyaml-cpp.so.0.7"]),
    "panpipe/_prefix/bin/panpipe wants libyaml-cpp.so.0.7, which is neither in the wheel",
)
expect(
    "the program linked with torch",
    lambda folder: library(folder / "panpipe/_prefix/bin/panpipe", ["libc10.so"]),
    "panpipe/_prefix/bin/panpipe wants torch's libraries",
)
expect(
    "a search path of the machine",
    lambda folder: library(folder / "panpipe/_prefix/lib/panpipe/panpipe-exec", ["libc10.so"], "/home/someone/.venv/lib"),
    "panpipe/_prefix/lib/panpipe/panpipe-exec searches for libraries in /home/someone/.venv/lib",
)
expect(
    "a path of the machine in a program",
    lambda folder: library(folder / "panpipe/_prefix/bin/panpipe", text="/home/someone/panpipe/cli/main.cpp"),
    "panpipe/_prefix/bin/panpipe holds the text /home/someone/panpipe",
    build_paths=["/home/someone/panpipe"],
)
for part in DECLARED:
    slug = parts_file.slug(part)
    expect(
        f"no licence of {part['name']}",
        lambda folder, slug=slug: (folder / LICENCES / f"{slug}-copyright").unlink(),
        f"the licence text of {part['name']} is not in the wheel",
    )
    expect(
        f"{part['name']} is not in the NOTICE",
        lambda folder, name=part["name"]: (folder / LICENCES / "NOTICE").write_text(
            (folder / LICENCES / "NOTICE").read_text().replace(f"* {name} ", "* ")
        ),
        f"the NOTICE does not name {part['name']}",
    )
expect(
    "no licence of Panpipe", lambda folder: (folder / LICENCES / "LICENSE").unlink(), "Panpipe's own LICENSE is not in the wheel"
)
expect(
    "no source of SimGrid",
    lambda folder: (folder / LICENCES / "NOTICE").write_text(
        (folder / LICENCES / "NOTICE").read_text().replace("simgrid-3.32.tar.gz", "")
    ),
    "the NOTICE does not say which archive is SimGrid's source",
)


def without_executor(folder):
    """Torch's headers are inside only where the executor is."""
    (folder / "panpipe/_prefix/lib/panpipe/panpipe-exec").unlink()
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
expect(
    "no module", lambda folder: (folder / MODULE).unlink(), "one Python module panpipe/_core.*so is expected, the wheel has []"
)
expect(
    "two modules",
    lambda folder: shutil.copy(folder / MODULE, folder / "panpipe/_core.abi3.so"),
    "one Python module panpipe/_core.*so is expected",
)
for name in ("__init__.py", "_core.pyi", "py.typed"):
    expect(f"no {name}", lambda folder, name=name: (folder / "panpipe" / name).unlink(), f"panpipe/{name} is not in the wheel")
expect("a module that wants torch", lambda folder: library(folder / MODULE, ["libc10.so"]), f"{MODULE} wants torch's libraries")
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
