// A trainer's configuration with nested keys (YAML, JSON, TOML). Values are read by path; unread ones are reported.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/input/yaml_document.hpp"

namespace panpipe::jobs {

class JobKeys {
 public:
  // `root` must be a map (InputError). Keys of nested maps are joined by dots: "zero_optimization.stage"; a list is one value.
  explicit JobKeys(NodePtr root);

  // Each marks the key as understood. An absent or null key gives nullopt. Throws InputError with the place for another type or a
  // value outside the limits.
  std::optional<int> integer(const std::string& path, int at_least = 1, int at_most = 1 << 24);
  std::optional<double> number(const std::string& path);
  std::optional<bool> flag(const std::string& path);
  std::optional<std::string> text(const std::string& path);
  std::vector<std::string> list(const std::string& path);
  std::vector<std::vector<std::string>> lists(const std::string& path);  // of texts
  bool automatic(const std::string& path);                               // true for "auto": left to the program
  bool has(const std::string& path) const;                               // does not mark; null counts as absent
  // The value as written, for messages.
  std::string shown(const std::string& path) const;

  // Throws InputError at the key.
  [[noreturn]] void refuse(const std::string& path, const std::string& message, const std::string& help = "") const;

  // Replaces the file's value by one from the command line.
  void replace(const std::string& path, const std::string& value);

  // Of a resolved configuration, which states every key: `take` and `rest` return only these.
  void report_only(std::set<std::string> stated) { stated_ = std::move(stated); }
  // Marks the keys among `names` that are present, and returns them as "path: value"; a trailing `*` matches any rest.
  std::vector<std::string> take(const std::vector<std::string>& names);
  // The unread keys, each with the nearest path that was read or is in `known`.
  std::vector<std::string> rest(const std::vector<std::string>& known = {}) const;
  const std::string& name() const;

 private:
  void add(const std::string& path, const NodePtr& node);
  const Node* find(const std::string& path);
  std::string line_of(const std::string& path) const;

  NodePtr root_;
  std::map<std::string, NodePtr> values_;  // leaves and lists
  std::vector<std::string> order_;
  std::set<std::string> understood_, asked_;
  std::optional<std::set<std::string>> stated_;
};

}  // namespace panpipe::jobs
