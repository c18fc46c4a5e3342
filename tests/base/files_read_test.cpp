#include "base/files/files_read.hpp"

#include <gtest/gtest.h>

namespace panpipe {
namespace {

using Paths = std::vector<std::string>;

TEST(FilesRead, NamesEachFileOnceInTheOrderOfReading) {
  const FilesRead files;
  for (const char* path : {"b", "a", "b"}) report_file_read(path);
  EXPECT_EQ(files.paths(), (Paths{"b", "a"}));
}

TEST(FilesRead, TheInnermostListens) {
  report_file_read("nobody listens");
  const FilesRead outer;
  {
    const FilesRead inner;
    report_file_read("inside");
    EXPECT_EQ(inner.paths(), Paths{"inside"});
  }
  report_file_read("after");
  EXPECT_EQ(outer.paths(), Paths{"after"});
}

}  // namespace
}  // namespace panpipe
