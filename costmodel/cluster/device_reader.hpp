// Reads a device's keys.
#pragma once

#include "base/input/reader.hpp"
#include "base/input/yaml_document.hpp"
#include "costmodel/cluster/cluster.hpp"

namespace panpipe {

// Reads the value of a `device:` key: a file, a shipped name, {file: ..., key: replacement}, or the keys themselves. `clock`, if
// given: the share of the data sheet's clock that a power limit or a clock leaves; rates and power follow it already.
DeviceType read_device(const Node& node, ReadLog& log, double* clock = nullptr);

}  // namespace panpipe
