// A device's keys -> DeviceType.
#pragma once

#include "base/input/reader.hpp"
#include "base/input/yaml_document.hpp"
#include "costmodel/cluster/cluster.hpp"

namespace panpipe {

// The value of a `device:` key: a file, a shipped name, {file: ..., key: replacement}, or the keys themselves.
DeviceType read_device(const Node& node, ReadLog& log);

}  // namespace panpipe
