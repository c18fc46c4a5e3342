// Faults at a place of a text: with the path, the source line and a caret under it.
#pragma once

#include <string>

#include "base/error.hpp"
#include "base/input/yaml_document.hpp"

namespace panpipe {

// Line 0 shows only the file. An override is shown as "--set key=value: error: ..." with a caret in the assignment.
Diagnostic render_diagnostic(const SourceText& source, bool overridden, int line, int column, const std::string& path,
                             const std::string& message, const std::string& help, std::string_view code = code::kInvalid);

// At a word of a line, at the line's beginning where the word is not in it, or (line 0) of the whole text.
Diagnostic diagnostic_at_word(const SourceText& source, int line, const std::string& word, const std::string& message,
                              const std::string& help);

// A fault of a whole file: "file: error: message".
Diagnostic diagnostic_of_file(const std::string& file, const std::string& message, const std::string& help = "",
                              std::string_view code = code::kInvalid);

}  // namespace panpipe
