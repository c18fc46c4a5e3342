#!/usr/bin/env python3
"""The transport is compiled without Gloo's headers: nothing in its objects is a function or a table of Gloo's.

    gloo_symbols_test.py ARCHIVE

A class of Gloo that was made or called here would leave its constructor, its virtual table or an undefined function behind, and
would rest on a layout that another release of Gloo need not have (exec/engine/transport/gloo_names.hpp).
"""

import re
import subprocess
import sys

# A symbol that is Gloo's own; not one of c10d or std that only has a class of Gloo among its parameters.
OF_GLOO = re.compile(
    r"^(?:(?:vtable|VTT|typeinfo|typeinfo name|construction vtable|guard variable|non-virtual thunk to|virtual thunk to)[ a-z]* )?"
    r"(?:gloo::|c10d::ProcessGroupGloo::GlooStore)"
)
# The two by which process groups are made: without them this looked at the wrong file.
CALLED = ("c10d::ProcessGroupGloo::ProcessGroupGloo(", "c10d::ProcessGroupGloo::createDeviceForHostname(")


def symbols(file):
    listed = subprocess.run(["nm", "-C", file], capture_output=True, text=True, check=True).stdout
    return [
        line.split(maxsplit=1 if line.startswith(" ") else 2)[-1]
        for line in listed.splitlines()
        if re.match(r"^([0-9a-f]{16}| {16}) \w ", line)
    ]


def main():
    assert OF_GLOO.match("gloo::Context::setTimeout(int)") and OF_GLOO.match("vtable for gloo::rendezvous::Store")
    assert not OF_GLOO.match("c10d::ProcessGroupGloo::createDeviceForHostname(gloo::transport::Device)")
    transport = symbols(sys.argv[1])
    lacking = [name for name in CALLED if not any(symbol.startswith(name) for symbol in transport)]
    found = sorted({symbol for symbol in transport if OF_GLOO.match(symbol)})
    for name in lacking:
        print(f"{sys.argv[1]} does not call {name}...): is this the transport?")
    for symbol in found:
        print(f"of Gloo: {symbol}")
    if not lacking and not found:
        print(f"{len(transport)} symbols, none of Gloo's")
    return 1 if lacking or found else 0


if __name__ == "__main__":
    sys.exit(main())
