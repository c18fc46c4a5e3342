// Measured times of collectives, as nccl-tests prints them: tables that a cluster file names and that come before formulas.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "costmodel/cluster/cluster.hpp"

namespace panpipe {

// One kind over one form of group.
struct CollectiveTable {
  std::string kind;     // "all_reduce", "all_gather", "reduce_scatter", "broadcast", "send_recv", "all_to_all"
  int ranks = 0;        // of the group
  int nodes = 0;        // that it lies on, each with ranks / nodes of it
  TransferTable times;  // bytes of the full tensor (of one message, for send_recv) -> time
};

struct CollectiveTables {
  std::string file;                             // as named; empty for tables that were just made
  std::map<std::string, std::string> measured;  // provenance: programs, versions, hosts, files with their hashes
  std::vector<CollectiveTable> tables;          // by kind, nodes, ranks; no two of one kind and form
};

// The kinds, in the order of files.
const std::vector<std::string>& collective_kinds();

// Bytes that a rank sends over its slowest hop for each byte of the tensor, by which nccl-tests turns time into bus bandwidth:
// 2 (n-1)/n for an all-reduce, (n-1)/n for all-gather, reduce-scatter and all-to-all, 1 for the others.
double bus_factor(const std::string& kind, int ranks);

// A file of kind `collectives` (docs/file-formats.md), read once while it holds the same text. Throws InputError with everything
// that is wrong.
std::shared_ptr<const CollectiveTables> load_collective_tables(const std::string& path);
CollectiveTables parse_collective_tables(const std::string& text, const std::string& name);
// The file's text: reads back to the same tables. `heading`: a comment line that it begins with, may be empty.
std::string to_yaml(const CollectiveTables& tables, const std::string& heading);

}  // namespace panpipe
