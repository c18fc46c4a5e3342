#!/usr/bin/env python3
"""Which LibTorch is taken: tools/find-libtorch, tools/setup and CMake over made-up torch packages, in a copy of the tree's root.

find_libtorch_test.py
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
OLDEST, NEWEST = "2.11", "2.15"
PIP = "-m pip install -q --disable-pip-version-check --retries 5 --timeout 60"
GIVE = "Give the folder of the torch package, such as .venv/lib/python3.11/site-packages/torch."


def expect(found, wanted, what):
    if found != wanted:
        raise SystemExit(f"{what}:\n  found    {found!r}\n  expected {wanted!r}")


def package(folder, version, whole=True):
    """The files of a torch package that are looked at, below the prefix `folder`."""
    home = folder / "lib/python3.11/site-packages/torch"
    for name in ("lib/libtorch_cpu.so", "lib/libc10.so", "include/ATen/ATen.h"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    numbers = dict(zip(("MAJOR", "MINOR", "PATCH"), version.split(".")))
    header = home / "include/torch/headeronly/version.h"
    header.parent.mkdir(parents=True, exist_ok=True)
    header.write_text(
        "#pragma once\n\n" + "".join(f"#define TORCH_VERSION_{part} {number}\n" for part, number in numbers.items())
    )
    (home / "__init__.py").write_text("raise SystemExit('PyTorch was started')\n")
    files = home.parent / f"torch-{version}.dist-info/RECORD"
    files.parent.mkdir()
    if whole:
        files.touch()
    return home


class Root:
    """A copy of what looks for LibTorch. dpkg-query reports that every package is there; apt-get, python3 -m venv and pip only note."""

    def __init__(self, folder):
        self.root, self.stubs, self.log = folder / "root", folder / "stubs", folder / "log"
        for name in ("tools/find-libtorch", "tools/setup", "cmake/FindLibTorch.cmake"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / name, self.root / name)
        (self.root / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(look LANGUAGES NONE)\nlist(APPEND CMAKE_MODULE_PATH ${CMAKE_SOURCE_DIR}/cmake)\n"
            'find_package(LibTorch QUIET)\nmessage(STATUS "taken: ${LibTorch_FOUND} ${LibTorch_VERSION} ${LibTorch_CPU_LIBRARY}")\n'
        )
        self.stubs.mkdir()
        self.stub("dpkg-query", 'for word; do printf "ii %s " "$word"; done')
        self.stub("apt-get", f'echo "apt-get $*" >>{self.log}; exit 1')
        # Without torch next to it, as the system's python3 is on most machines.
        self.stub(
            "python3",
            f'[ "$2" != venv ] || {{ mkdir -p .venv/bin; printf "#!/bin/sh\\necho \\"$*\\" >>{self.log}\\n" >.venv/bin/python3; '
            f'sed -i \'s/"[^"]*"/"$*"/\' .venv/bin/python3; chmod +x .venv/bin/python3; }}',
        )

    def stub(self, name, body):
        (self.stubs / name).write_text(f"#!/bin/bash\n{body}\n")
        (self.stubs / name).chmod(0o755)

    def call(self, *command, **environment):
        own = ("PANPIPE_LIBTORCH", "PANPIPE_TORCH_INDEX", "VIRTUAL_ENV", "CONDA_PREFIX", "PANPIPE_NO_TORCH")
        env = {name: value for name, value in os.environ.items() if name not in own}
        env.update({name: str(value) for name, value in environment.items()}, PATH=f"{self.stubs}:{env['PATH']}")
        words = [str(word) for word in command]
        return subprocess.run(words, cwd=self.root, capture_output=True, text=True, env=env)

    def find(self, *arguments, code=0, **environment):
        done = self.call("tools/find-libtorch", *arguments, **environment)
        expect((done.returncode, done.stderr), (code, ""), f"find-libtorch {arguments} {environment}")
        return done.stdout.splitlines()

    def installed(self):
        """What pip got."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line for line in lines if "install" in line]

    def configure(self, build, *arguments, **environment):
        done = self.call("cmake", "-S", ".", "-B", build, *arguments, **environment)
        return done.returncode, (re.findall(r"^-- taken: (.*)$", done.stdout, re.M) or [""])[0], " ".join(done.stderr.split())


def taken(home, version, origin):
    return [f"found {home}", f"version {version}", f"origin {origin}"]


def order(folder):
    """Each of them together with all that come after it."""
    root = Root(folder)
    expect(root.find(code=1), [], "nothing there")
    own = package(root.root / ".venv", "2.11.0")
    expect(root.find(), taken(own, "2.11.0", ".venv"), ".venv alone")
    in_path = package(folder / "in_path", "2.12.1")
    root.stub("python3", f'PYTHONPATH={in_path.parent} exec {sys.executable} "$@"')
    expect(root.find(), taken(in_path, "2.12.1", "python3 in PATH"), "python3 in PATH")
    conda, active = package(folder / "conda", "2.13.0"), package(folder / "active", "2.14.1")
    asked = package(folder / "asked", "2.15.3")
    around = {"CONDA_PREFIX": folder / "conda"}
    expect(root.find(**around), taken(conda, "2.13.0", "CONDA_PREFIX"), "CONDA_PREFIX")
    around["VIRTUAL_ENV"] = folder / "active"
    expect(root.find(**around), taken(active, "2.14.1", "VIRTUAL_ENV"), "VIRTUAL_ENV")
    around["PANPIPE_LIBTORCH"] = asked
    expect(root.find(**around), taken(asked, "2.15.3", "PANPIPE_LIBTORCH"), "PANPIPE_LIBTORCH")
    expect(root.find(own, **around), taken(own, "2.11.0", "PANPIPE_LIBTORCH"), "a folder as argument")
    # An environment without torch is passed over, and .venv keeps its name where it is the active one.
    (folder / "empty").mkdir()
    around = {"VIRTUAL_ENV": folder / "empty", "CONDA_PREFIX": folder / "conda"}
    expect(root.find(**around), taken(conda, "2.13.0", "CONDA_PREFIX"), "no torch")
    root.stub("python3", "exit 1")
    expect(root.find(VIRTUAL_ENV=root.root / ".venv"), taken(own, "2.11.0", ".venv"), ".venv is active")


def out_of_range(folder):
    root = Root(folder)
    old, new = package(folder / "old", "2.10.1"), package(folder / "new", "2.16.0")
    broken, own = package(folder / "broken", "2.13.0"), package(root.root / ".venv", "2.11.0", whole=False)
    (broken / "include/ATen/ATen.h").unlink()
    left_out = f"note LibTorch 2.10.1 (VIRTUAL_ENV, {old}) is left out: Panpipe builds with {OLDEST} to {NEWEST}."
    no_header = f"note LibTorch (CONDA_PREFIX, {broken}) is left out: include/ATen/ATen.h is missing."
    cut_short = f"note LibTorch (.venv, {own}) is left out: its installation was broken off."
    around = {"VIRTUAL_ENV": folder / "old", "CONDA_PREFIX": folder / "broken"}
    expect(root.find(code=1, **around), [left_out, no_header, cut_short], "nothing that can be used")
    (own.parent / "torch-2.11.0.dist-info/RECORD").touch()
    expect(root.find(**around), [left_out, no_header, *taken(own, "2.11.0", ".venv")], "the next one")
    expect(
        root.find(VIRTUAL_ENV=folder / "new"),
        [
            f"note LibTorch 2.16.0 (VIRTUAL_ENV, {new}) is newer than {NEWEST}, the newest that was tried. It is taken. If it does not compile, set "
            f"PANPIPE_LIBTORCH to the folder of a torch package from {OLDEST} to {NEWEST}.",
            *taken(new, "2.16.0", "VIRTUAL_ENV"),
        ],
        "newer",
    )
    # What was asked for by name is not replaced by another.
    for asked, why in (
        (old, f" is LibTorch 2.10.1. Panpipe builds with {OLDEST} to {NEWEST}."),
        (folder, f" is no LibTorch: lib/libtorch_cpu.so is missing. {GIVE}"),
        ("nowhere", f": there is no such folder. {GIVE}"),
    ):
        expect(root.find(PANPIPE_LIBTORCH=asked, code=2), [f"error PANPIPE_LIBTORCH={asked}{why}"], asked)


def setup(folder):
    """Nothing is downloaded where one is here; else the words come before the download."""
    root = Root(folder)
    active, old = package(folder / "active", "2.14.1"), package(folder / "old", "2.10.1")

    def says(what, code, error, **environment):
        done = root.call("tools/setup", **environment)
        expect((done.returncode, done.stdout, done.stderr), (code, "", error), what)

    used = f"setup: LibTorch 2.14.1 is taken from {active} (VIRTUAL_ENV); nothing is downloaded\n"
    says("active", 0, used, VIRTUAL_ENV=folder / "active")
    too_old = f"setup: PANPIPE_LIBTORCH={old} is LibTorch 2.10.1. Panpipe builds with {OLDEST} to {NEWEST}.\n"
    says("one that cannot be used", 2, too_old, PANPIPE_LIBTORCH=old)
    if (root.root / ".venv").exists() or root.log.exists():
        raise SystemExit(f"something was installed: {root.log.read_text() if root.log.exists() else '.venv'}")
    downloads = (
        f"setup: LibTorch 2.10.1 (VIRTUAL_ENV, {old}) is left out: Panpipe builds with {OLDEST} to {NEWEST}.\n"
        "setup: installing torch==2.11.0 into .venv (a few minutes, 5 GB)\n"
        "setup: installing nanobind==3.1.0 hypothesis jsonschema into .venv, for the Python module\n"
    )
    says("downloads", 0, downloads, VIRTUAL_ENV=folder / "old")
    packages = ("torch==2.11.0 nvidia-cuda-crt==13.0.88", "nanobind==3.1.0 hypothesis jsonschema")
    expect(root.installed(), [f"{PIP} {what}" for what in packages], "what pip was told")


def index(folder):
    """PANPIPE_TORCH_INDEX is passed to pip, once; with CUDA 12 the headers come from its compiler's package."""
    root = Root(folder)
    own = package(root.root / ".venv", "2.11.0")
    for there in ("nanobind", "hypothesis", "jsonschema"):
        (own.parent / there).mkdir()
    (root.root / ".venv/bin").mkdir()
    pip = root.root / ".venv/bin/python3"
    pip.write_text(f'#!/bin/sh\necho "$*" >>{root.log}\n[ "$3" != list ] || echo "nvidia-cuda-runtime-cu12 12.6.77"\n')
    pip.chmod(0o755)

    def installed(**environment):
        root.log.unlink(missing_ok=True)
        done = root.call("tools/setup", **environment)
        return done.returncode, done.stderr, root.installed()

    url = "https://wheels.example/cu126"
    expect(
        installed(PANPIPE_TORCH_INDEX=url),
        (
            0,
            f"setup: installing torch==2.11.0 from {url} into .venv (a few minutes, up to 5 GB)\n",
            [f"{PIP} --index-url {url} --force-reinstall torch==2.11.0", f"{PIP} --no-deps nvidia-cuda-nvcc-cu12==12.6.*"],
        ),
        "an index",
    )
    expect(installed(PANPIPE_TORCH_INDEX=url), (0, "", []), "the same index again")
    expect(installed(), (0, "", []), "what an index brought is kept")
    expect(root.call("tools/setup", "--check", PANPIPE_TORCH_INDEX=url).returncode, 0, "--check")
    other = root.call("tools/setup", "--check", PANPIPE_TORCH_INDEX="https://wheels.example/cu118")
    expect(other.returncode, 1, "--check of another")
    pip.write_text(f'#!/bin/sh\necho "$*" >>{root.log}\n')
    code, words, calls = installed(PANPIPE_TORCH_INDEX="https://wheels.example/cpu")
    expect(
        (code, words.splitlines()[-1], len(calls)),
        (0, "setup: this torch comes without CUDA: panpipe run uses the CPU", 1),
        "an index without CUDA",
    )
    expect(root.find(), taken(own, "2.11.0", ".venv"), ".venv")


def cmake(folder):
    """CMake takes the script's answer, and a build folder keeps what it took until another is asked for."""
    root = Root(folder)
    own, active = package(root.root / ".venv", "2.11.0"), package(folder / "active", "2.14.1")
    old = package(folder / "old", "2.10.1")

    def found(home, version):
        return 0, f"TRUE {version} {home}/lib/libtorch_cpu.so", ""

    expect(root.configure("of_venv"), found(own, "2.11.0"), ".venv")
    expect(root.configure("of_active", VIRTUAL_ENV=folder / "active"), found(active, "2.14.1"), "VIRTUAL_ENV")
    expect(root.configure("of_venv", VIRTUAL_ENV=folder / "active"), found(own, "2.11.0"), "a build folder of .venv")
    expect(root.configure("of_active"), found(active, "2.14.1"), "a build folder of VIRTUAL_ENV")
    expect(root.configure("of_venv", PANPIPE_LIBTORCH=active), found(active, "2.14.1"), "another by the environment variable")
    expect(root.configure("of_active", f"-DPANPIPE_LIBTORCH={own}"), found(own, "2.11.0"), "another by -D")
    code, _, error = root.configure("of_old", f"-DPANPIPE_LIBTORCH={old}")
    expect(
        (code, f"PANPIPE_LIBTORCH={old} is LibTorch 2.10.1. Panpipe builds with {OLDEST} to {NEWEST}." in error), (1, True), error
    )
    # One that is gone is looked for anew.
    shutil.rmtree(own)
    code, line, _ = root.configure("of_venv", VIRTUAL_ENV=folder / "active")
    expect((code, line), (0, f"TRUE 2.14.1 {active}/lib/libtorch_cpu.so"), "kept")
    shutil.rmtree(active)
    code, line, _ = root.configure("of_venv")
    expect((code, line.split()[0]), (0, "FALSE"), "gone")


def one_range():
    """The range stands in several places: all agree."""
    script = (SOURCE / "tools/find-libtorch").read_text()
    expect(re.findall(r"^oldest=(\S+) newest=(\S+)$", script, re.M), [(OLDEST, NEWEST)], "tools/find-libtorch")
    archives = (SOURCE / "costmodel/workload/archive.cpp").read_text()
    expect(re.findall(r'kTried = "PyTorch (\S+) to (\S+)"', archives), [(OLDEST, NEWEST)], "archives")
    section = (SOURCE / "docs/installing.md").read_text().split("\n## LibTorch\n")[1].split("\n## ")[0]
    tried = sorted(re.findall(r"^\| (2\.\d+)\.\d+", section, re.M), key=lambda name: int(name[2:]))
    expect((tried[0], tried[-1]), (OLDEST, NEWEST), "releases tried in docs/installing.md")


def main():
    for check in (order, out_of_range, setup, index, cmake):
        with tempfile.TemporaryDirectory(prefix="panpipe-libtorch-") as name:
            check(pathlib.Path(name).resolve())
    one_range()
    print("find-libtorch, setup and CMake take the same LibTorch")


if __name__ == "__main__":
    main()
