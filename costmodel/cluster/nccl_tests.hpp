// What nccl-tests prints (all_reduce_perf and its siblings), as tables of measured collectives.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/cluster/collective_tables.hpp"

namespace panpipe {

// What a text does not say itself: where its header was cut off.
struct NcclTestsHints {
  std::string kind;  // as in collective_kinds(); empty: as the text says
  std::optional<int> ranks, nodes;
};

// One run of one program over one group.
struct NcclTestsRun {
  std::string source;  // where it was read
  std::string kind;
  int ranks = 0, nodes = 0;
  std::string device;              // "NVIDIA H100 80GB HBM3"; empty where not printed
  std::vector<std::string> hosts;  // in the order of ranks
  std::string tests, nccl;         // versions as printed; empty where not
  // Sizes in bytes and times, as printed: a size may come again. The in-place time of all-reduces, which trainers reduce in
  // place, else the out-of-place time; the other one where that one is not printed.
  std::vector<std::pair<Bytes, Duration>> rows;
  std::vector<std::string> warnings;  // rows with wrong results
};

// The runs of a text, in order. Prefixes of mpirun (--tag-output), lines of logs, further columns and time stamps are skipped.
// Of ranks that were split into groups (NCCL_TESTS_SPLIT) the first group is the one that is measured. Throws InputError with
// the place of the fault; `name` is how messages call the text, and may tell the kind ("all_gather_perf.txt").
std::vector<NcclTestsRun> parse_nccl_tests(const std::string& text, const std::string& name, const NcclTestsHints& hints = {});

// One table a kind and form of group; of a size that was measured several times the median.
CollectiveTables tables_of(const std::vector<NcclTestsRun>& runs);

}  // namespace panpipe
