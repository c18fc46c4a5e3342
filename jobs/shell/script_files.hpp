// The files of a script, for places, and what reading them may cost.
#pragma once

#include <cctype>
#include <set>
#include <string>
#include <vector>

#include "base/input/yaml_document.hpp"
#include "jobs/shell/shell_words.hpp"

namespace panpipe::jobs {

// Of a variable's name.
inline bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class ScriptFiles {
 public:
  // Checks the bytes as checked_text does, and returns the file's index.
  int add(const std::string& bytes, const std::string& name);
  int count() const { return static_cast<int>(files_.size()); }
  const std::string& text(int file) const { return files_[static_cast<std::size_t>(file)].text; }
  const std::string& name(int file) const { return files_[static_cast<std::size_t>(file)].source.name; }
  int line(int file, std::size_t offset) const;
  TextPlace place(int file, std::size_t begin, std::size_t length) const;

 private:
  struct File {
    SourceText source;
    std::string text;
    std::vector<std::size_t> starts;      // of lines in `text`
    std::vector<std::size_t> raw_starts;  // of lines in the bytes
  };
  std::vector<File> files_;
};

// The remedy where a script cannot be followed.
constexpr const char* kArgumentsAlone = "give the arguments of the training program alone, as a shell would pass them";

// Bounds the work on a script. Throws InputError where it is spent.
class ScriptBudget {
 public:
  explicit ScriptBudget(std::string name) : name_(std::move(name)) {}
  void spend(std::size_t work);
  void check_size(std::size_t bytes, int line) const;  // of a value

 private:
  std::string name_;
  std::size_t left_ = std::size_t{1} << 25;
};

}  // namespace panpipe::jobs
