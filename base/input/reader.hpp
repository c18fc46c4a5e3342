// Typed reading of a map: every key read is marked, finish() reports the others with a suggestion; faults are gathered
// and thrown together. Every value is remembered with its origin, for `panpipe check`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/input/yaml_document.hpp"
#include "base/quantity.hpp"

namespace panpipe {

// One resolved value: where it came from is "file:line", "--set", "default" or "derived: ...".
struct ResolvedValue {
  std::string path;
  std::string value;
  std::string origin;
};

// Beyond so many, faults mostly repeat those before.
constexpr std::size_t kMostDiagnostics = 20;

// Gathers faults (at most kMostDiagnostics are kept) and resolved values of one load.
class ReadLog {
 public:
  void error(const Node& at, const std::string& message, const std::string& help = "");
  void error_at_key(const Node& map, const std::string& key, const std::string& message, const std::string& help = "",
                    FaultCode code = FaultCode::Other);
  void add(Diagnostic diagnostic);
  void add(const InputError& error);  // everything another file's reading gathered
  bool has_errors() const { return !diagnostics_.empty(); }
  void throw_if_errors() const;  // InputError with everything gathered

  void resolved(std::string path, std::string value, std::string origin);
  const std::vector<ResolvedValue>& resolved_values() const { return resolved_; }

 private:
  std::vector<Diagnostic> diagnostics_;
  std::vector<std::string> files_;  // in the order they were first complained about
  std::vector<ResolvedValue> resolved_;
};

// The limits of a number. The message names the limit: "must be positive", "must not be negative", "must be at least 1".
enum class Sign { Any, NonNegative, Positive };

template <class T>
using Choices = std::vector<std::pair<std::string_view, T>>;

class MapReader {
 public:
  // `node` must outlive the reader. When it is not a map an error is logged and every read returns its default.
  MapReader(const Node& node, ReadLog& log);

  const Node& node() const { return *node_; }
  ReadLog& log() const { return *log_; }
  bool has(const std::string& key) const;       // does not mark
  const Node* find(const std::string& key);     // marks; nullptr when absent
  const Node* require(const std::string& key);  // marks; nullptr when absent, and finish() logs "missing key 'x'"

  // Each marks the key. With a fallback the key is optional (the fallback is recorded as "default"); without one a
  // missing key is an error. After an error the fallback (or a zero) is returned and reading goes on.
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
    std::vector<std::string> names;
    for (const auto& [name, value] : choices) names.emplace_back(name);
    std::optional<std::string> fallback_name;
    for (const auto& [name, value] : choices)
      if (fallback && value == *fallback) fallback_name = std::string(name);
    const std::string picked = choice_name(key, names, fallback_name);
    for (const auto& [name, value] : choices)
      if (name == picked) return value;
    return fallback.value_or(choices.front().second);
  }

  // Reports every key that was not read, with "did you mean". Every reader must be finished.
  void finish();

 private:
  std::string choice_name(const std::string& key, const std::vector<std::string>& names,
                          const std::optional<std::string>& fallback);
  // The scalar of a key, or nullptr after recording the fallback or complaining that the key is missing.
  const Node* value_of(const std::string& key, const std::optional<std::string>& fallback);
  std::string path_of(const std::string& key) const;
  void complain_missing(const std::vector<std::string>& unread);

  const Node* node_;
  ReadLog* log_;
  bool is_map_ = true;
  std::vector<std::string> read_;
  std::vector<std::string> missing_;  // required and absent: one complaint, in finish()
};

// Typed reading of one scalar node (items of lists, cells of tables). Log an error and return nullopt when wrong.
std::optional<Duration> read_duration(const Node& node, ReadLog& log, Sign sign = Sign::NonNegative);
std::optional<Bytes> read_bytes(const Node& node, ReadLog& log, Sign sign = Sign::NonNegative);
std::optional<Bandwidth> read_bandwidth(const Node& node, ReadLog& log, Sign sign = Sign::Positive);
std::optional<int> read_integer(const Node& node, ReadLog& log, int at_least);
std::optional<double> read_number(const Node& node, ReadLog& log, Sign sign = Sign::Any);
std::optional<std::string> read_string(const Node& node, ReadLog& log);
std::optional<ComputeRate> read_compute_rate(const Node& node, ReadLog& log, Sign sign = Sign::Positive);
std::optional<double> read_fraction(const Node& node, ReadLog& log);
std::optional<bool> read_boolean(const Node& node, ReadLog& log);

// "file:line" of a node, or "--set".
std::string origin_of(const Node& node);

// "a", "a and b", "a, b and c".
std::string list_of(const std::vector<std::string>& items);

// Finds a referenced file: relative to the folder of the file that names it, then in the data folder (data_directory()).
// nullopt when neither exists.
std::optional<std::string> find_file(const std::string& reference, const std::string& directory);

// The path of the file that a scalar names, found as find_file does; logs an error with the folders looked in (and a
// similar name that is there) when it does not exist. `what` is the word for it: "cluster", "table of layers".
std::optional<std::string> read_file_reference(const Node& node, ReadLog& log, const std::string& what);

// Folder of the shipped scenarios: $PANPIPE_DATA, else share/panpipe of the prefix (base/files/installation.hpp).
std::string data_directory();

}  // namespace panpipe
