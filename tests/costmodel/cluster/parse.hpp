// Clusters written out in a test.
#pragma once

#include <string>

#include "costmodel/cluster/cluster_reader.hpp"

namespace panpipe {

// Reads YAML as the value of a scenario's `cluster:` key; throws InputError with all faults.
inline Cluster cluster_from(const std::string& yaml, const std::string& directory = "") {
  ReadLog log;
  const NodePtr node = parse_document(yaml, "c.yaml", directory);
  Cluster cluster = read_cluster(*node, log);
  log.throw_if_errors();
  return cluster;
}

}  // namespace panpipe
