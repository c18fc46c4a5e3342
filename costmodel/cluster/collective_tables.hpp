// Measured times of collectives, as nccl-tests prints them. A cluster file names the tables; they take precedence over formulas.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "costmodel/cluster/cluster.hpp"

namespace panpipe {

// Times of one kind of collective for one shape of group.
struct CollectiveTable {
  std::string kind;     // "all_reduce", "all_gather", "reduce_scatter", "broadcast", "send_recv", "all_to_all"
  int ranks = 0;        // in the group
  int nodes = 0;        // that the group spans, each with ranks / nodes of them
  TransferTable times;  // bytes of the full tensor (of one message, for send_recv) -> time
};

struct CollectiveTables {
  std::string file;                             // as named; empty for tables not read from a file
  std::map<std::string, std::string> measured;  // provenance: programs, versions, hosts, files with their hashes
  std::vector<CollectiveTable> tables;          // sorted by kind, nodes, ranks; one per kind and shape
  // Where they were measured: the cluster whose description names the file, without keys that others lay over it, and with two
  // nodes of each kind. Null: the cluster that has these tables.
  std::shared_ptr<const Cluster> measured_on;
};

// The kinds, in the order of files.
const std::vector<std::string>& collective_kinds();

// Bytes that a rank sends over its slowest hop per byte of the tensor; nccl-tests uses this factor to convert time into bus
// bandwidth. 2 (n-1)/n for an all-reduce, (n-1)/n for all-gather, reduce-scatter and all-to-all, 1 for the others.
double bus_factor(const std::string& kind, int ranks);

// Reads a file of kind `collectives` (docs/file-formats.md); an unchanged file is parsed once. Throws InputError with all faults.
std::shared_ptr<const CollectiveTables> load_collective_tables(const std::string& path);
CollectiveTables parse_collective_tables(const std::string& text, const std::string& name);
// The text of a file that reads back as the same tables. `heading` becomes its first comment line and may be empty.
std::string to_yaml(const CollectiveTables& tables, const std::string& heading);

}  // namespace panpipe
