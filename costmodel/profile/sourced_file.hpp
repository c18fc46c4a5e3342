// Files of named numbers, each with its source: `key: {value: 0.794, source: where it comes from}`.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/input/bound_key.hpp"
#include "base/quantity.hpp"

namespace panpipe {

// The source of a number in a measured device's file begins so where it was taken from elsewhere.
inline constexpr std::string_view kNotMeasured = "not measured";

// Reads the keys of one such file. Keys are optional, and absent ones keep the struct's default; unknown keys are errors.
class SourcedFile {
 public:
  // `kind` is "framework" or "calibration", as in the file's `kind:` key and its folder scenarios/<kind>s/.
  SourcedFile(const std::string& kind, const std::string& name_or_path, const std::string& directory);

  std::string name();
  void read(const std::string& key, double& value, Sign sign = Sign::NonNegative);
  void read(const std::string& key, Duration& value);
  void read(const std::string& key, ComputeRate& value);
  template <class T>
  void read(const std::vector<BoundKey<T>>& rows, T& into) {
    for (const BoundKey<T>& row : rows)
      entry(row.name, [&](MapReader& r) {
        BoundKey<T> value = row;
        value.name = "value";
        value.required = true;
        value.read(value, r, into);
      });
  }
  MapReader& reader() { return reader_; }
  // A list of names; empty if the key is absent.
  std::vector<std::string> names(const std::string& key);
  // Accepts a key written only for people, such as how the numbers were found.
  void pass_over(const std::string& key) { reader_.find(key); }
  // The values read, as written in the file.
  const std::map<std::string, std::string>& values() const { return values_; }
  // Returns the sources. Throws InputError with all faults.
  std::map<std::string, std::string> finish();

 private:
  void entry(const std::string& key, const std::function<void(MapReader&)>& get);

  std::shared_ptr<const Node> root_;
  ReadLog log_;
  MapReader reader_;
  std::map<std::string, std::string> sources_, values_;
};

}  // namespace panpipe
