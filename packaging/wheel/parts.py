"""The parts of others inside the wheel: what parts.toml says of them, their licence texts, and the notice that goes with them."""

import pathlib
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent


class Missing(Exception):
    """Something that this machine lacks; the message names it and the remedy."""


def read():
    with open(HERE / "parts.toml", "rb") as file:
        return tomllib.load(file)


def slug(part):
    return part["name"].replace(" ", "-")


def debian_version(package):
    """The version in which Debian's package is installed here."""
    status = pathlib.Path("/var/lib/dpkg/status")
    name, found = None, None
    for line in status.read_text(errors="replace").splitlines() if status.exists() else []:
        if line.startswith("Package: "):
            name = line[9:]
        elif line.startswith("Version: ") and name == package:
            found = line[9:]
    if found is None:
        raise Missing(
            f"Debian's package {package} is not installed: its library or headers go into the wheel with its licence; run make setup on Debian 12"
        )
    return found


def tool_packages(sources):
    """The site-packages of packaging/wheel/tools.txt; sources: folder of the unpacked archives, beside which they are installed."""
    return next(iter(sources.parent.glob(f"venv/*/lib/python3.{sys.version_info.minor}/site-packages")), sources)


def pip_version(name):
    """As packaging/wheel/tools.txt asks for it."""
    for line in (HERE / "tools.txt").read_text().splitlines():
        if line.startswith(name + "=="):
            return line.split("==")[1].strip()
    raise Missing(f"packaging/wheel/tools.txt does not name {name}")


def opening_comment(file):
    """The text of the comment that a header begins with: headers without a licence file beside them have their licence there."""
    source = file.read_text(encoding="utf-8")
    if not source.startswith("/*"):
        raise Missing(f"{file} does not begin with its licence")
    lines = source[: source.index("*/")].splitlines()[1:]
    return "\n".join(line.removeprefix(" *").removeprefix(" ") for line in lines) + "\n"


def texts(part, sources, torch):
    """(file name, text) of each licence text of a part. sources: folder of the unpacked archives; torch: folder of the torch package."""
    if "archive" in part:
        files = [sources / slug(part) / name for name in part["texts"]]
    elif "package" in part:
        files = [pathlib.Path("/usr/share/doc") / part["package"] / "copyright"]
    elif "header" in part:
        files = [tool_packages(sources) / part["header"]]
    elif "pip" in part:  # of the tools that build the wheel
        files = sorted(tool_packages(sources).glob(f"{part['pip']}-*.dist-info/licenses/LICENSE"))
    else:
        files = sorted(torch.parent.glob("torch-*.dist-info/licenses/LICENSE")) + sorted(
            torch.parent.glob("torch-*.dist-info/LICENSE")
        )
    for file in files:
        if not file.is_file():
            raise Missing(f"the licence text of {part['name']} is not at {file}")
    if not files:
        raise Missing(
            f"no licence text of {part['name']} " + (f"in {tool_packages(sources)}" if "pip" in part else f"beside {torch}")
        )
    if "header" in part:
        return [(f"{slug(part)}-LICENSE", opening_comment(files[0]))]
    return [(f"{slug(part)}-{file.name}", file.read_text(encoding="utf-8", errors="replace")) for file in files]


def expression(parts):
    """The licence of the wheel as a whole (SPDX)."""
    terms = ["Apache-2.0"]
    for part in parts:
        terms += [term for term in part["licence"].split(" AND ") if term not in terms]
    return " AND ".join(terms)


def version(part, torch_version):
    if "version" in part:
        return part["version"]
    if "header" in part:  # the copy that this package has
        return f"of {part['pip']} {pip_version(part['pip'])}"
    if "pip" in part:
        return pip_version(part["pip"])
    return debian_version(part["package"]) if "package" in part else torch_version


def notice(parts, torch_version, have_executor):
    """What the wheel contains of others, and how the part under the LGPL is replaced."""
    lines = ["Panpipe is under the Apache License 2.0. This wheel holds, beside Panpipe's own programs:", ""]
    for part in parts:
        if "torch" in part and not have_executor:
            continue
        lines.append(f"* {part['name']} {version(part, torch_version)} ({part['licence']}): {part['use']}.")
        if "archive" in part:
            lines.append(f"    Built from {part['archive']}, SHA-256 {part['sha256']}, unchanged.")
        elif "package" in part:
            lines.append(f"    As Debian 12 builds it (package {part['package']}).")
        elif "pip" in part:
            lines.append(f"    As PyPI has it (package {part['pip']}), unchanged.")
    simgrid = next(part for part in parts if part["name"] == "SimGrid")
    lines += [
        "",
        "The licence texts lie beside this file.",
        "",
        "SimGrid is free software under the GNU Lesser General Public License 2.1.",
        f"* Its complete source is the archive {simgrid['archive']} (SHA-256 above), which is the source distribution of the Python",
        f"  package simgrid, version {simgrid['version']}. Whoever passes this wheel on offers that archive from the same place; `make wheel` lays it into",
        "  build/wheel/sources/ for this.",
        "* It was configured with " + " ".join(f"-D{option}" for option in simgrid["options"]) + "; tools/wheel in Panpipe's",
        "  repository is the script that builds it.",
        f"* You may change it and use your own: build libsimgrid.so.{simgrid['version']} with these options and put it in the place of the file",
        "  libsimgrid-*.so.* in the folder panpipe.libs beside the package panpipe, under that file's name. The program loads",
        "  whatever lies there; nothing else needs to be linked again. You may debug and take apart Panpipe's programs for this.",
        "",
        "Eigen is under the Mozilla Public License 2.0; its source is Debian's source package eigen3.",
        "",
    ]
    return "\n".join(lines)
