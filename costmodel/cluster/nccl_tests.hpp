// Reads the output of nccl-tests (all_reduce_perf and its siblings) into tables of measured collectives.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/cluster/collective_tables.hpp"

namespace panpipe {

// Facts that a text lacks, for example because its header was cut off.
struct NcclTestsHints {
  std::string kind;  // as in collective_kinds(); empty: taken from the text
  std::optional<int> ranks, nodes;
};

// One run of one program over one group.
struct NcclTestsRun {
  std::string source;  // the file it was read from
  std::string kind;
  int ranks = 0, nodes = 0;
  std::string device;              // "NVIDIA H100 80GB HBM3"; empty if not printed
  std::vector<std::string> hosts;  // in the order of ranks
  std::string tests, nccl;         // versions as printed; empty if not printed
  // Sizes in bytes and times, as printed; a size may occur several times. All-reduces use the in-place time, because trainers
  // reduce in place; other kinds use the out-of-place time. If that time is not printed, the other one is used.
  std::vector<std::pair<Bytes, Duration>> rows;
  std::vector<std::string> warnings;  // rows with wrong results
};

// Returns the runs of a text, in order. Skips prefixes of mpirun (--tag-output), log lines, extra columns and time stamps. If
// ranks were split into groups (NCCL_TESTS_SPLIT), the first group is the measured one. Throws InputError with the place of the
// fault. `name` identifies the text in messages and may imply the kind ("all_gather_perf.txt").
std::vector<NcclTestsRun> parse_nccl_tests(const std::string& text, const std::string& name, const NcclTestsHints& hints = {});

// One table per kind and shape of group. A size that was measured several times gets the median.
CollectiveTables tables_of(const std::vector<NcclTestsRun>& runs);

}  // namespace panpipe
