#include "base/input/cached_document.hpp"

#include <gtest/gtest.h>

#include <cstdio>

#include "tests/temporary_folder.hpp"

namespace panpipe {
namespace {

// One tree as long as the file holds one text, at any time of change; a fault is reported every time; a removed file is missed.
TEST(KeptDocument, IsParsedAgainWhenTheTextChanges) {
  const std::string path = test::scratch().file("kept.yaml");
  const auto write = [&](const std::string& text) { test::write_file(path, text); };
  write("a: 1\n");
  const auto first = cached_document(path);
  EXPECT_EQ(first->find("a")->text, "1");
  EXPECT_EQ(first->source->name, path);
  write("a: 1\n");
  EXPECT_EQ(cached_document(path), first);
  write("a: 2\n");
  const auto second = cached_document(path);
  EXPECT_EQ(second->find("a")->text, "2");
  EXPECT_EQ(first->find("a")->text, "1");
  write("a: [\n");
  for (int twice = 0; twice < 2; ++twice) EXPECT_THROW(cached_document(path), InputError);
  std::remove(path.c_str());
  EXPECT_THROW(cached_document(path), InputError);
}

}  // namespace
}  // namespace panpipe
