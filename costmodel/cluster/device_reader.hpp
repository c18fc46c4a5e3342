// Reads a device's keys.
#pragma once

#include "base/input/reader.hpp"
#include "base/input/yaml_document.hpp"
#include "costmodel/cluster/cluster.hpp"

namespace panpipe {

// Reads the value of a `device:` key: a file, a shipped name, {file: ..., key: replacement}, or the keys themselves.
DeviceType read_device(const Node& node, ReadLog& log);

}  // namespace panpipe
