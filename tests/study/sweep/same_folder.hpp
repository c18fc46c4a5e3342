// Folders of two sweeps that are the same.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tests/cli/program.hpp"

namespace panpipe::study {

constexpr const char* kFiles[] = {"grid.json", "cells.jsonl", "sweep.json", "sweep.csv", "sweep.html"};

inline void expect_same_folder(const std::string& a, const std::string& b) {
  for (const char* name : kFiles) EXPECT_EQ(test::read_file(a + "/" + name), test::read_file(b + "/" + name)) << name;
}

}  // namespace panpipe::study
