#include "base/input/key_record.hpp"

#include <algorithm>
#include <utility>

namespace panpipe {

namespace {

thread_local KeyRecord* kept_record = nullptr;

// "devices[3].memory" as "devices[].memory".
std::string without_indices(const std::string& path) {
  std::string plain;
  bool inside = false;
  for (const char c : path) {
    if (c == ']') inside = false;
    if (!inside) plain += c;
    if (c == '[') inside = true;
  }
  return plain;
}

}  // namespace

KeyRecord::KeyRecord() { kept_record = this; }
KeyRecord::~KeyRecord() { kept_record = nullptr; }
KeyRecord* KeyRecord::current() { return kept_record; }

void KeyRecord::watch(std::string document, std::string merged) {
  document_ = std::move(document);
  merged_ = std::move(merged);
}

KeyFact* KeyRecord::at(const Node& node, const std::string& path) {
  const bool watched =
      (node.source != nullptr && node.source->name == document_) || path == merged_ || path.starts_with(merged_ + ".");
  return watched ? &facts_[without_indices(path)] : nullptr;
}

void note_form(const Node& node, const std::string& path, ValueForm form, std::optional<int> at_least) {
  KeyFact* fact = kept_record != nullptr ? kept_record->at(node, path) : nullptr;
  if (fact == nullptr) return;
  fact->forms.insert(form);
  if (at_least) fact->at_least = std::min(*at_least, fact->at_least.value_or(*at_least));
}

void note_words(const Node& node, const std::string& path, const std::vector<std::string>& words) {
  KeyFact* fact = kept_record != nullptr ? kept_record->at(node, path) : nullptr;
  if (fact == nullptr) return;
  for (const std::string& word : words)
    if (std::find(fact->words.begin(), fact->words.end(), word) == fact->words.end()) fact->words.push_back(word);
}

}  // namespace panpipe
