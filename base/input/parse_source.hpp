// Checked text -> tree, for the files of this folder.
#pragma once

#include <memory>
#include <string>

#include "base/input/yaml_document.hpp"

namespace panpipe {

// `text` as checked_text() returns it, `source` as it fills it. Null where the text holds no document. Throws InputError.
NodePtr parse_source(const std::string& text, const std::shared_ptr<const SourceText>& source);

}  // namespace panpipe
