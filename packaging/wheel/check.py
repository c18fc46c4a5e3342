#!/usr/bin/env python3
"""check.py WHEEL: does the wheel hold only what parts.toml names, with every licence, and nothing that ties it to the machine that built it?

Prints a line for each fault and ends with 1 where there is one."""

import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

import parts as parts_file


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def dynamic(path):
    """(libraries wanted, search path) of an ELF file."""
    text = subprocess.run(["readelf", "-dW", path], capture_output=True, text=True, check=True).stdout
    wanted = re.findall(r"\(NEEDED\)\s+Shared library: \[(.*?)\]", text)
    search = [
        entry for found in re.findall(r"\((?:RUNPATH|RPATH)\)\s+Library \w+: \[(.*?)\]", text) for entry in found.split(":")
    ]
    return wanted, search


def is_a(file_name, library):
    """libfmt is the library of libfmt.so.9 and of libfmt-0a1b2c3d.so.9.1.0, not that of libfmtx.so; libns3 is that of libns3-core.so.37."""
    return re.match(re.escape(library) + r"(-[\w.-]+)?\.so(\.|$)", file_name) is not None


def module_faults(folder, metadata):
    """The Python module is there with its types, and for the interpreters that the tag promises to."""
    faults = [
        f"panpipe/{name} is not in the wheel"
        for name in ("__init__.py", "_core.pyi", "py.typed", "SKILL.md")
        if not (folder / "panpipe" / name).is_file()
    ]
    modules = [path.name for path in sorted(folder.glob("panpipe/_core.*so"))]
    if len(modules) != 1:
        return [*faults, f"one Python module panpipe/_core.*so is expected, the wheel has {modules}"]
    # _core.abi3.so; _core.cpython-311-x86_64-linux-gnu.so
    release = re.fullmatch(r"_core\.cpython-(\d+)-.*\.so", modules[0])
    built = f"cp{release[1]}" if release else "abi3"
    wheel = metadata / "WHEEL"
    promised = re.findall(r"^Tag: \w+-(\w+)-", wheel.read_text() if wheel.is_file() else "", re.M)
    if set(promised) != {built}:
        faults.append(
            f"panpipe/{modules[0]} is built for {built}, but the wheel's tag promises {', '.join(promised) or 'nothing'}"
        )
    return faults


def faults_of(folder, build_paths=()):
    """Faults of an unpacked wheel. build_paths: text that must not stand in a program, as the folders it was built in."""
    declared = parts_file.read()
    parts, outside, forbidden = declared["part"], declared["outside"], declared["forbidden"]["libraries"]
    faults = []
    bundled = sorted(folder.glob("panpipe.libs/*"))
    own = [path for path in sorted((folder / "panpipe").rglob("*")) if path.is_file() and not path.is_symlink() and is_elf(path)]
    for path in bundled:
        if not any(is_a(path.name, part["library"]) for part in parts if "library" in part):
            faults.append(f"panpipe.libs/{path.name} is named by no part in packaging/wheel/parts.toml: its licence is not known")
    for path in bundled + own:
        name = path.relative_to(folder)
        for library in forbidden:
            if is_a(path.name, library):
                faults.append(f"{name} is under the GPL or linked with what is")
        if not is_elf(path):
            continue
        wanted, search = dynamic(path)
        with_torch = any(library in outside["torch"] for library in wanted)
        here = {other.name for other in bundled + own}
        for library in wanted:
            if any(is_a(library, bad) for bad in forbidden):
                faults.append(f"{name} wants {library}, which is under the GPL or linked with what is")
            elif library not in here and library not in outside["system"] and library not in outside["torch"]:
                faults.append(f"{name} wants {library}, which is neither in the wheel nor promised by its tag nor torch's")
        if with_torch and path.name not in ("panpipe-exec", "panpipe_nccl.so"):
            faults.append(f"{name} wants torch's libraries; only the executor may")
        for entry in search:
            if not entry.startswith("$ORIGIN"):
                faults.append(
                    f"{name} searches for libraries in {entry or 'the current folder'}, a place of the machine that built it"
                )
        content = path.read_bytes()
        for text in build_paths:
            if str(text).encode() in content:
                faults.append(f"{name} holds the text {text}, a place of the machine that built it")
    metadata = next(iter(folder.glob("panpipe-*.dist-info")), folder / "no dist-info")
    faults += module_faults(folder, metadata)
    licences = metadata / "licenses"
    notice = (licences / "NOTICE").read_text() if (licences / "NOTICE").is_file() else ""
    have_executor = any(path.name == "panpipe-exec" for path in own)
    if not (licences / "LICENSE").is_file():
        faults.append("Panpipe's own LICENSE is not in the wheel")
    for part in parts:
        if "torch" in part and not have_executor:
            continue
        if not any(path.stat().st_size > 500 for path in licences.glob(parts_file.slug(part) + "-*")):
            faults.append(f"the licence text of {part['name']} is not in the wheel")
        if f"* {part['name']} " not in notice:
            faults.append(f"the NOTICE does not name {part['name']}")
    simgrid = next(part for part in parts if part["name"] == "SimGrid")
    if simgrid["sha256"] not in notice or simgrid["archive"] not in notice:
        faults.append("the NOTICE does not say which archive is SimGrid's source")
    return faults


def unpack(wheel, folder):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)


def main():
    with tempfile.TemporaryDirectory() as folder:
        unpack(sys.argv[1], folder)
        faults = faults_of(pathlib.Path(folder), sys.argv[2:])
    print("\n".join(faults) or f"{pathlib.Path(sys.argv[1]).name}: every library is named, every licence is there")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
