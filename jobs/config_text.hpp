// A model's configuration written in place: keys of config.json as a YAML flow map.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

namespace panpipe::jobs {

class ConfigText {
 public:
  template <class T>
  void add(const char* key, const T& value) {
    items_.push_back(fmt::format("{}: {}", key, value));
  }
  std::string text() const { return fmt::format("{{{}}}", fmt::join(items_, ", ")); }

 private:
  std::vector<std::string> items_;
};

}  // namespace panpipe::jobs
