"""mutate.py IN OUT: the source of the NCCL transport's module with faults that STAND_IN_MUTANT=NAME turns on.

The tests must find each of them (mutants_test.cpp). Where the source has changed so that a fault has no place any more, this fails
and names it.
"""

import re
import sys

HELPER = """
#include <cstdlib>
#include <string_view>
namespace {
bool mutated(std::string_view name) {
  const char* asked = std::getenv("STAND_IN_MUTANT");
  return asked && name == asked;
}
}  // namespace
"""

# Name of the fault; the part of the source that it is in, from a text to a text; what is replaced there, once, and by what.
FAULTS = [
    (
        "receives_are_not_awaited",
        "struct ArrivingOnDevice",
        "\n};",
        r"\bOnStream::wait\(",
        'if (mutated("{name}")) value = arrived; else OnStream::wait(',
    ),
    (
        "received_memory_is_not_recorded",
        "struct ArrivingOnDevice",
        "\n};",
        r"\bc10::cuda::CUDACachingAllocator::recordStream\(",
        'if (!mutated("{name}")) c10::cuda::CUDACachingAllocator::recordStream(',
    ),
    # A message has nothing that is kept; an exchange of rows has what arrives.
    (
        "sums_are_not_awaited",
        "struct OnStream",
        "\n};",
        r"\bwork->wait\(",
        'if (!mutated("{name}") || !kept.defined() || arrived.defined()) work->wait(',
    ),
    # One communicator for both directions of a pair; its members are then in the order of their ranks.
    (
        "directions_share_a_communicator",
        "PendingPtr send(",
        "\n  }",
        r"of_pair\(rank\(\), to\)",
        'of_pair(mutated("{name}") ? std::min(rank(), to) : rank(), mutated("{name}") ? std::max(rank(), to) : to)',
    ),
    (
        "directions_share_a_communicator",
        "void take_from(",
        "\n  }",
        r"of_pair\(peer, rank\(\)\)",
        'of_pair(mutated("{name}") ? std::min(rank(), peer) : peer, mutated("{name}") ? std::max(rank(), peer) : rank())',
    ),
    (
        "directions_share_a_communicator",
        "PendingPtr send(",
        "\n  }",
        r"->send\((\w+), 1, 0\)",
        r'->send(\1, mutated("{name}") && rank() > to ? 0 : 1, 0)',
    ),
    (
        "directions_share_a_communicator",
        "void take_from(",
        "\n  }",
        r"->recv\((\w+), 0, 0\)",
        r'->recv(\1, mutated("{name}") && peer > rank() ? 1 : 0, 0)',
    ),
]


def main():
    source = open(sys.argv[1], encoding="utf-8").read()
    for name, begin, end, old, new in FAULTS:
        first = source.find(begin)
        last = source.find(end, first)
        part, count = re.subn(old, new.format(name=name), source[first:last], count=1) if 0 <= first < last else ("", 0)
        if count != 1:
            sys.exit(f"mutate.py: {sys.argv[1]} has no place for the fault {name} any more: {old} in {begin}")
        source = source[:first] + part + source[last:]
    includes = source.rfind("\n#include")
    after = source.index("\n", includes + 1)
    source = source[:after] + HELPER + source[after:]
    open(sys.argv[2], "w", encoding="utf-8").write(source)


main()
