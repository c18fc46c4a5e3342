"""What the stand-in GPU lacks: functions of CUDA's runtime and of NCCL that LibTorch's libraries and the NCCL module name.

missing_symbols.py NM --needs LIBRARY... --offers LIBRARY...; exit 1 with the missing names where there are any. A header among
those that need lists functions of NVML that LibTorch looks up by name (c10/cuda/driver_api.h).
"""

import re
import subprocess
import sys

# __cudaPushCallConfiguration, cudaMalloc, ncclSend; not cublasCreate, cudnnCreate, curandCreateGenerator.
OURS = re.compile(r"^(__cuda[A-Z]\w*|cuda[A-Z]\w*|nccl[A-Z]\w*|nvml[A-Z]\w*)(@.*)?$")


def names(nm, library, *options):
    if library.endswith(".h"):
        return set(re.findall(r"_\((nvml\w+)\)", open(library, encoding="utf-8").read()))
    lines = subprocess.run([nm, "-D", *options, library], check=True, capture_output=True, text=True).stdout.splitlines()
    found = (OURS.match(line.split()[-1]) for line in lines if line.strip())
    return {match.group(1) for match in found if match}


def main():
    nm, *rest = sys.argv[1:]
    needs, offers = rest[rest.index("--needs") + 1 : rest.index("--offers")], rest[rest.index("--offers") + 1 :]
    offered = set().union(*(names(nm, library, "--defined-only") for library in offers))
    missing = {}
    for library in needs:
        for name in names(nm, library, "--undefined-only") - offered:
            missing.setdefault(name, []).append(library.rsplit("/", 1)[-1])
    for name, libraries in sorted(missing.items()):
        print(f"the stand-in GPU lacks {name}, which {', '.join(libraries)} names")
    if missing:
        print("add them in tests/stand_in_gpu/cuda/, nccl/ or nvml.cpp, those that nobody calls in absent.cpp")
    return 1 if missing else 0


sys.exit(main())
