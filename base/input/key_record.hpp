// Records which keys readers look up in a document, in which forms and within which limits. Readers record nothing unless a
// KeyRecord exists.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/input/yaml_document.hpp"

namespace panpipe {

// The forms in which a value is read. A key that is read in several ways has several.
enum class ValueForm { Text, Whole, Number, Truth, Time, Size, BytesPerSecond, FlopPerSecond, Share };

struct KeyFact {
  std::set<ValueForm> forms;
  std::vector<std::string> words;   // the accepted words, where one of several words is expected
  std::set<std::string> fallbacks;  // the reader's value when the key is absent; several when it depends on other keys
  std::optional<int> at_least;      // of whole numbers
  int required = 0;                 // maps in which the key's absence would have been an error
  bool may_be_absent = false;       // some reader checked whether the key exists
  int maps = 0;                     // how often the value was read as a map whose unknown keys are errors
};

// Records the look-ups of this thread's readers during its lifetime. At most one exists at a time.
class KeyRecord {
 public:
  KeyRecord();
  ~KeyRecord();
  KeyRecord(const KeyRecord&) = delete;
  KeyRecord& operator=(const KeyRecord&) = delete;

  // nullptr when nothing is recorded.
  static KeyRecord* current();

  // Records look-ups in `document` (SourceText::name). Other documents are recorded below their key `merged`, where their keys
  // are merged in.
  void watch(std::string document, std::string merged);
  // The fact for a path such as "optimizer.groups[].match"; nullptr when the node's document is not watched.
  KeyFact* at(const Node& node, const std::string& path);

  const std::map<std::string, KeyFact>& facts() const { return facts_; }

 private:
  std::string document_, merged_;
  std::map<std::string, KeyFact> facts_;
};

// Add to the current record, if one exists.
void note_form(const Node& node, const std::string& path, ValueForm form, std::optional<int> at_least = {});
void note_words(const Node& node, const std::string& path, const std::vector<std::string>& words);

}  // namespace panpipe
