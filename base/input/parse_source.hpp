// Parses checked text into a tree, for the other files of this folder.
#pragma once

#include <memory>
#include <string>

#include "base/input/yaml_document.hpp"

namespace panpipe {

// `text` is the result of checked_text(), which also fills `source`. Returns null when the text holds no document. Throws
// InputError.
NodePtr parse_source(const std::string& text, const std::shared_ptr<const SourceText>& source);

}  // namespace panpipe
