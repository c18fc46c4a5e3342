// Edits of an owner's file by ranges of its bytes: every byte outside of them stays.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace panpipe::jobs {

struct TextRange {
  std::size_t begin = 0, end = 0;  // bytes; end is exclusive
  bool operator==(const TextRange&) const = default;
};

class TextEdits {
 public:
  explicit TextEdits(std::string text) : text_(std::move(text)) {}

  // Ranges lie apart or are equal; of equal ones the last replacement applies. Text inserted at one place keeps the order of the
  // calls.
  void replace(TextRange range, std::string with);
  void insert(std::size_t at, std::string text);
  void remove(TextRange range) { replace(range, ""); }

  bool empty() const { return edits_.empty(); }
  const std::string& text() const { return text_; }  // before the edits
  std::string result() const;
  // A unified diff with three lines of context; empty if nothing changes. `name` stands in its heading.
  std::string difference(const std::string& name) const;

 private:
  struct Edit {
    TextRange range;
    std::string with;
  };
  std::vector<Edit> sorted() const;

  std::string text_;
  std::vector<Edit> edits_;
};

}  // namespace panpipe::jobs
