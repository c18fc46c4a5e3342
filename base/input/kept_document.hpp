// Files that many inputs name (devices, frameworks, clusters) are parsed once.
#pragma once

#include <memory>
#include <string>

#include "base/input/yaml_document.hpp"

namespace panpipe {

// As load_document; calls for a file that still holds the same text share one tree. From any thread.
std::shared_ptr<const Node> kept_document(const std::string& path);

}  // namespace panpipe
