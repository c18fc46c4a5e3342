// Edits of a configuration (YAML, JSON, TOML) by the places of its values. Comments, order and spacing stay.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/input/yaml_document.hpp"
#include "jobs/edit/text_edits.hpp"

namespace panpipe::jobs {

enum class DocumentForm { Yaml, Json, Toml };

// A key, "section.key" or "key", with its value as the document writes it: 4, true, "1f1b".
using Setting = std::pair<std::string, std::string>;

// The document with these settings: values in place, new keys at the beginning of their section, new sections where the document
// begins (TOML: ends). What cannot be placed is added to `by_hand`.
TextEdits document_edits(const std::string& text, const Node& root, DocumentForm form, const std::vector<Setting>& settings,
                         std::vector<std::string>& by_hand);

// The settings of `after` that `before` has otherwise or not at all.
std::vector<Setting> changed_settings(const std::vector<Setting>& before, const std::vector<Setting>& after);

// The end of a value that begins at `begin`: of a list or map its bracket, of a text its quote, else the last character before a
// comma, a comment or the end of the line.
std::size_t end_of_value(const std::string& text, std::size_t begin);

}  // namespace panpipe::jobs
