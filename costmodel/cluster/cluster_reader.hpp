// Reads cluster and device files. Keys and examples: docs/models/topology.md.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/input/reader.hpp"
#include "base/input/yaml_document.hpp"
#include "costmodel/cluster/cluster.hpp"

namespace panpipe {

// Reads the value of a scenario's `cluster:` key, which is one of
//   clusters/x.yaml                            a file (or its bare name: dgx-a100-80g)
//   {file: clusters/x.yaml, nodes: 8, ...}     a file with some keys replaced; maps merge, other values are replaced
//   {devices: 4, memory: 24 GiB, link: {...}}  in place: one link per ordered pair of devices, no rates
//   {device: ..., nodes: ..., wiring: ...}     all keys of a cluster file, written out
// Logs faults; a cluster with faults is returned without devices (size() == 0). Throws InputError if a named file does not
// exist or is not YAML. Values are recorded under the node's path ("cluster.nodes"), even those from referenced files.
Cluster read_cluster(const Node& node, ReadLog& log);

// Reads a cluster file. Throws InputError if it is not readable YAML; other faults are logged.
Cluster load_cluster(const std::string& path, ReadLog& log);

// `reference` is a device file, or a device's name in any spelling ("rtx-3090", "RTX3090"). Relative references start from
// `directory`. Throws InputError if no such device exists.
DeviceType load_device(const std::string& reference, const std::string& directory, ReadLog& log);

// Reads a list of [size, time] pairs. Faults are logged; without a valid row the table is empty.
TransferTable read_transfer_table(const Node& node, ReadLog& log);
// The same with something else as `second` of a pair, from which the row's time follows; nullopt after a fault.
using TimeOfRow = std::function<std::optional<Duration>(Bytes size, const Node& second)>;
TransferTable read_size_table(const Node& node, ReadLog& log, Sign sizes, std::string_view second, std::string_view example,
                              const TimeOfRow& time_of_row);

// Turns `cluster: x.yaml` into `cluster: {file: x.yaml}`, so that an override of a key inside the file (--set cluster.nodes=16)
// has a map to change; returns maps unchanged. Call it on the scenario's tree before applying overrides.
NodePtr overridable_reference(const NodePtr& reference);

}  // namespace panpipe
