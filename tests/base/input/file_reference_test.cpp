#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.hpp"
#include "base/input/reader.hpp"
#include "base/input/shipped.hpp"
#include "base/input/source_text.hpp"
#include "tests/fault.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe {
namespace {

namespace fs = std::filesystem;

// folder/here.yaml, data/here.yaml, data/only.yaml
class FileReference : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* file : {"folder/here.yaml", "data/here.yaml", "data/only.yaml"}) files_.write(file, "a: 1\n");
    const char* before = std::getenv("PANPIPE_DATA");
    before_ = before != nullptr ? before : "";
    ::setenv("PANPIPE_DATA", (base_ / "data").c_str(), 1);
  }
  void TearDown() override {
    if (before_.empty())
      ::unsetenv("PANPIPE_DATA");
    else
      ::setenv("PANPIPE_DATA", before_.c_str(), 1);
  }
  const test::TemporaryFolder files_;
  const fs::path base_ = files_.path();
  std::string before_;
};

TEST_F(FileReference, TheFolderOfTheFileComesBeforeTheDataFolder) {
  const std::string folder = base_ / "folder";
  EXPECT_EQ(data_directory(), base_ / "data");
  EXPECT_EQ(find_file("here.yaml", folder), base_ / "folder/here.yaml");
  EXPECT_EQ(find_file("only.yaml", folder), base_ / "data/only.yaml");
  EXPECT_EQ(find_file("../data/only.yaml", folder), base_ / "data/only.yaml");
  EXPECT_EQ(find_file((base_ / "data/only.yaml").string(), folder), base_ / "data/only.yaml");
  EXPECT_EQ(find_file("none.yaml", folder), std::nullopt);
  EXPECT_EQ(find_file("", folder), std::nullopt);
}

TEST_F(FileReference, AMissingFileNamesWhereItWasLookedFor) {
  const std::string folder = base_ / "folder";
  const NodePtr root = parse_document("{a: hree.yaml, b: nothing.csv}", "x.yaml", folder);
  ReadLog log;
  EXPECT_EQ(read_file_reference(*root->find("a"), log, "cluster"), std::nullopt);
  EXPECT_EQ(read_file_reference(*root->find("b"), log, "schedule file"), std::nullopt);
  EXPECT_EQ(test::fault_of([&] { log.throw_if_errors(); }),
            "x.yaml:1:5: error: there is no cluster 'hree.yaml', did you mean 'here.yaml'?\n"
            "  at a\n"
            "    1 | {a: hree.yaml, b: nothing.csv}\n"
            "      |     ^\n"
            "x.yaml:1:19: error: there is no schedule file 'nothing.csv'\n"
            "  at b\n"
            "    1 | {a: hree.yaml, b: nothing.csv}\n"
            "      |                   ^\n"
            "  help: looked in '" +
                folder + "' and in '" + (base_ / "data").string() + "'");
}

TEST_F(FileReference, ShippedFilesAreListedOrTheFolderWithoutThemIsNamed) {
  fs::create_directories(base_ / "data/devices");
  for (const char* file : {"data/devices/b.yaml", "data/devices/a.yaml", "data/devices/notes.md"})
    test::write_file(base_ / file, "a: 1\n");
  EXPECT_EQ(shipped_list("devices"), "a, b");
  EXPECT_EQ(shipped_list("clusters"), "none: '" + (base_ / "data/clusters").string() +
                                          "' holds no files; PANPIPE_DATA names that folder: correct it, or unset it");
}

// Permission is not asked of a superuser, so that a loop of links stands for what cannot be looked at.
TEST_F(FileReference, WhatCannotBeReadIsNotCalledMissing) {
  fs::create_symlink("loop.yaml", base_ / "loop.yaml");
  for (const auto& [file, message] : std::vector<std::pair<std::string, std::string>>{
           {"loop.yaml", "the file cannot be read: Too many levels of symbolic links"}, {"none.yaml", "there is no such file"}}) {
    const std::string path = base_ / file;
    EXPECT_EQ(test::fault_of([&] { read_text_file(path); }), path + ": error: " + message);
  }
}

}  // namespace
}  // namespace panpipe
