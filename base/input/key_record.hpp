// Notes what readers ask of a document: which keys, in which forms, within which limits. Readers note nothing unless a record is
// kept.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/input/yaml_document.hpp"

namespace panpipe {

// The forms in which a value was asked for; a key that is read in several ways has several.
enum class ValueForm { Text, Whole, Number, Truth, Time, Size, BytesPerSecond, FlopPerSecond, Share };

struct KeyFact {
  std::set<ValueForm> forms;
  std::vector<std::string> words;   // where one of some words is expected
  std::set<std::string> fallbacks;  // what the reader takes where the key is absent; several where that depends on other keys
  std::optional<int> at_least;      // of whole numbers
  int required = 0;                 // maps in which its absence would have been an error
  bool may_be_absent = false;       // somewhere the reader looked whether it is there
  int maps = 0;                     // times that the value was read as a map whose unknown keys are errors
};

// While it lives, what the readers of this thread ask is noted here. At most one lives at a time.
class KeyRecord {
 public:
  KeyRecord();
  ~KeyRecord();
  KeyRecord(const KeyRecord&) = delete;
  KeyRecord& operator=(const KeyRecord&) = delete;

  // nullptr where nothing is recorded.
  static KeyRecord* current();

  // Of `document` (SourceText::name), and of other documents what stands under the key `merged`, into which their keys come.
  void watch(std::string document, std::string merged);
  // The fact of a path, "optimizer.groups[].match"; nullptr where the node's document is not watched.
  KeyFact* at(const Node& node, const std::string& path);

  const std::map<std::string, KeyFact>& facts() const { return facts_; }

 private:
  std::string document_, merged_;
  std::map<std::string, KeyFact> facts_;
};

// Note on the record that is kept, if one is.
void note_form(const Node& node, const std::string& path, ValueForm form, std::optional<int> at_least = {});
void note_words(const Node& node, const std::string& path, const std::vector<std::string>& words);

}  // namespace panpipe
