// Parses files that many inputs name (devices, frameworks, clusters) only once.
#pragma once

#include <memory>
#include <string>

#include "base/input/yaml_document.hpp"

namespace panpipe {

// Like load_document, but calls share one tree as long as the file's text is unchanged. Thread-safe.
std::shared_ptr<const Node> cached_document(const std::string& path);

}  // namespace panpipe
