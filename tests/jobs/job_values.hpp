// Values of an imported job that tests of importers compare.
#pragma once

#include <gtest/gtest.h>

#include <source_location>
#include <string>

#include "jobs/job.hpp"
#include "tests/fault.hpp"
#include "tests/texts.hpp"

namespace panpipe::jobs {

inline std::string value(const ImportedJob& imported, const std::string& key) {
  for (const ImportedValue& known : imported.values)
    if (known.key == key) return known.value;
  return "absent";
}

// `expected`: "parallel.tensor: 4; batch.micro: 2".
inline void expect_values(const ImportedJob& imported, const std::string& expected,
                          const std::source_location& at = std::source_location::current()) {
  const testing::ScopedTrace trace(at.file_name(), static_cast<int>(at.line()), "values of the job");
  for (const std::string& part : test::parts_of(expected, ';')) {
    const std::string row = part.substr(part.find_first_not_of(' ')), key = row.substr(0, row.find(": "));
    EXPECT_EQ(key + ": " + value(imported, key), row);
  }
}

using test::fault_of;

}  // namespace panpipe::jobs
