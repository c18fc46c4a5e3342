// Typed reading of a map. The reader marks each key it reads, and finish() reports the others with a suggestion. Faults are
// collected and thrown together. Every value is recorded with its origin, for `panpipe check`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/input/key.hpp"
#include "base/input/yaml_document.hpp"
#include "base/quantity.hpp"

namespace panpipe {

// One resolved value. Its origin is "file:line", "--set", "default" or "derived: ...".
struct ResolvedValue {
  std::string path;
  std::string value;
  std::string origin;
};

// The most faults shown. Further ones are mostly repetitions.
constexpr std::size_t kMostDiagnostics = 20;

// Collects the faults (at most kMostDiagnostics) and the resolved values of one load. With `declared`, the keys of the document,
// readers may look for declared keys only.
class ReadLog {
 public:
  explicit ReadLog(const Key* declared = nullptr) : declared_(declared) {}
  const Key* declared() const { return declared_; }
  void error(const Node& at, const std::string& message, const std::string& help = "", std::string_view code = code::kInvalid);
  void error_at_key(const Node& map, const std::string& key, const std::string& message, const std::string& help = "",
                    std::string_view code = code::kInvalid);
  void add(Diagnostic diagnostic);
  void add(const InputError& error);                     // adds every fault found in another file
  void add_at(const Node& at, const InputError& error);  // the same; faults without a place are at the node
  bool has_errors() const { return !diagnostics_.empty(); }
  void throw_if_errors() const;  // throws InputError with all collected faults

  void resolved(std::string path, std::string value, std::string origin);
  const std::vector<ResolvedValue>& resolved_values() const { return resolved_; }

 private:
  const Key* declared_;
  std::vector<Diagnostic> diagnostics_;
  std::vector<std::string> files_;  // in the order of their first fault
  std::vector<ResolvedValue> resolved_;
};

// What `read` returns; after a fault that it throws, which is logged, a value of that type that holds nothing.
template <class Read>
auto read_or_log(ReadLog& log, Read read) -> decltype(read()) {
  try {
    return read();
  } catch (const InputError& error) {
    log.add(error);
    return {};
  }
}

template <class T>
using Choices = std::vector<std::pair<std::string_view, T>>;

template <class T>
std::vector<std::string> names_of(const Choices<T>& choices) {
  std::vector<std::string> names;
  for (const auto& choice : choices) names.emplace_back(choice.first);
  return names;
}

// The word for a value; empty: there is none.
template <class T>
std::string_view word_of(const Choices<T>& choices, const T& value) {
  for (const auto& [word, known] : choices)
    if (known == value) return word;
  return "";
}

class MapReader {
 public:
  // `node` must outlive the reader. If it is not a map, an error is logged and every read returns its default.
  MapReader(const Node& node, ReadLog& log);

  const Node& node() const { return *node_; }
  ReadLog& log() const { return *log_; }
  bool has(const std::string& key) const;       // does not mark
  const Node* find(const std::string& key);     // marks; nullptr when absent
  const Node* require(const std::string& key);  // marks; nullptr when absent, and finish() logs "missing key 'x'"

  // Each call marks its key. With a fallback the key is optional, and the fallback is recorded as "default". Without one a
  // missing key is an error. After an error the call returns the fallback, or zero, and reading continues.
  Duration duration(const std::string& key, Sign sign = Sign::NonNegative, std::optional<Duration> fallback = {});
  Bytes bytes(const std::string& key, Sign sign = Sign::NonNegative, std::optional<Bytes> fallback = {});
  Bandwidth bandwidth(const std::string& key, Sign sign = Sign::Positive, std::optional<Bandwidth> fallback = {});
  ComputeRate compute_rate(const std::string& key, Sign sign = Sign::Positive, std::optional<ComputeRate> fallback = {});
  double fraction(const std::string& key, std::optional<double> fallback = {});  // "85 %", 0..100 %
  double number(const std::string& key, Sign sign = Sign::Any, std::optional<double> fallback = {});
  int integer(const std::string& key, int at_least, std::optional<int> fallback = {});
  bool boolean(const std::string& key, std::optional<bool> fallback = {});  // true | false only
  std::string string(const std::string& key, std::optional<std::string> fallback = {});

  template <class T>
  T choice(const std::string& key, const Choices<T>& choices, std::optional<T> fallback = {}) {
    std::optional<std::string> fallback_name;
    if (fallback) fallback_name = std::string(word_of(choices, *fallback));
    const std::string picked = choice_name(key, names_of(choices), fallback_name);
    for (const auto& [name, value] : choices)
      if (name == picked) return value;
    return fallback.value_or(choices.front().second);
  }

  // Reports a key that the map should not have, if it is there; finish() then does not report it again.
  void refuse(const std::string& key, const std::string& message, const std::string& help = "",
              std::string_view code = code::kInvalid);
  // Marks every declared key, where other faults leave open which of them apply.
  void mark_declared();

  // Reports every key that was not read, with "did you mean". Call it on every reader.
  void finish();

 private:
  std::string choice_name(const std::string& key, const std::vector<std::string>& names,
                          const std::optional<std::string>& fallback);
  // The scalar of a key. When it is missing, records the fallback or the error and returns nullptr.
  const Node* value_of(const std::string& key, const std::optional<std::string>& fallback);
  std::string path_of(const std::string& key) const;
  void complain_missing(const std::vector<std::string>& unread);

  void mark(const std::string& key);

  const Node* node_;
  ReadLog* log_;
  const Key* declared_;  // the map's declaration, if the log has one for it
  bool is_map_ = true;
  std::vector<std::string> read_;
  std::vector<std::string> missing_;  // required but absent; finish() reports them in one fault
};

// Typed reading of one scalar node: an item of a list, a cell of a table. A wrong value logs an error and returns nullopt.
std::optional<Duration> read_duration(const Node& node, ReadLog& log, Sign sign = Sign::NonNegative);
std::optional<Bytes> read_bytes(const Node& node, ReadLog& log, Sign sign = Sign::NonNegative);
std::optional<Bandwidth> read_bandwidth(const Node& node, ReadLog& log, Sign sign = Sign::Positive);
std::optional<int> read_integer(const Node& node, ReadLog& log, int at_least);
std::optional<double> read_number(const Node& node, ReadLog& log, Sign sign = Sign::Any);
std::optional<std::string> read_string(const Node& node, ReadLog& log);
std::optional<ComputeRate> read_compute_rate(const Node& node, ReadLog& log, Sign sign = Sign::Positive);
std::optional<double> read_fraction(const Node& node, ReadLog& log);
std::optional<bool> read_boolean(const Node& node, ReadLog& log);

// Reads and checks `panpipe` and `kind` of a file, which trees in place of one may omit, and skips `description` and `source`.
enum class Heading { Required, Optional };
void read_heading(MapReader& reader, const std::string& kind, Heading heading = Heading::Required);

// What a node holds, for messages: "nothing", "'4'", "a list", "a map".
std::string words_for(const Node& node);

// "file:line" of a node, or "--set".
std::string origin_of(const Node& node);

// "a", "a and b", "a, b and c".
std::string list_of(const std::vector<std::string>& items);

// Finds a referenced file: relative to the folder of the file that names it, then in the data folder (data_directory()).
// nullopt when neither exists.
std::optional<std::string> find_file(const std::string& reference, const std::string& directory);

// The path of the file that a scalar names, found as find_file does. When it does not exist, logs an error with the searched
// folders and a similar existing name. `what` names the file's role: "cluster", "table of layers".
std::optional<std::string> read_file_reference(const Node& node, ReadLog& log, const std::string& what);

// The folder of the shipped scenarios: $PANPIPE_DATA, else share/panpipe of the prefix (base/files/installation.hpp).
std::string data_directory();

}  // namespace panpipe
