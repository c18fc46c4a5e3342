// Cluster and device files -> Cluster, DeviceType. Keys and examples: docs/models/topology.md.
#pragma once

#include <string>

#include "base/input/reader.hpp"
#include "base/input/yaml_document.hpp"
#include "costmodel/cluster/cluster.hpp"

namespace panpipe {

// Reads the value of a scenario's `cluster:` key, which is one of
//   clusters/x.yaml                            a file (or its bare name: dgx-a100-80g)
//   {file: clusters/x.yaml, nodes: 8, ...}     a file with some of its keys replaced; maps merge, all else is replaced
//   {devices: 4, memory: 24 GiB, link: {...}}  in place: one link per ordered pair of devices, no rates
//   {device: ..., nodes: ..., wiring: ...}     a whole cluster file's keys, written out
// Faults go to the log; a cluster that has any comes back without devices (size() == 0). Throws InputError when a file that
// is named does not exist or is no YAML. Values are recorded under the node's path ("cluster.nodes"), also those that stand in
// referenced files.
Cluster read_cluster(const Node& node, ReadLog& log);

// A cluster file. Throws InputError when it cannot be read as YAML; other faults go to the log.
Cluster load_cluster(const std::string& path, ReadLog& log);

// `reference`: a device file, or a device's name in any spelling ("rtx-3090", "RTX3090"). `directory` is where a relative
// reference starts. Throws InputError when there is no such device.
DeviceType load_device(const std::string& reference, const std::string& directory, ReadLog& log);

// A list of [size, time] pairs. Faults go to the log; without a sound row the table is empty.
TransferTable read_transfer_table(const Node& node, ReadLog& log);

// `cluster: x.yaml` as `cluster: {file: x.yaml}`, so that an override of a key inside the file (--set cluster.nodes=16)
// has a map to go to; maps are returned as they are. Call it on the scenario's tree before applying overrides.
NodePtr overridable_reference(const NodePtr& reference);

}  // namespace panpipe
