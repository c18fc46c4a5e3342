// Every call of refusals.txt ends with the exit code of a wrong input, prints no answer, and reports what stands there.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/cli/program.hpp"
#include "tests/texts.hpp"

namespace panpipe::test {
namespace {

const std::string kRefusals = "cli/refusals.txt";

TEST(Refusals, AreWholeMessages) {
  const std::string expected = read_file(kRefusals);
  std::string found;
  for (const std::string& line : parts_of(expected, '\n')) {
    if (line.starts_with("#")) found += line + "\n";
    if (!line.starts_with("$ ")) continue;
    found += line + "\n";
    for (const std::string& reported : parts_of(refusal_of(line.substr(2)), '\n')) found += "  " + reported + "\n";
  }
  if (std::getenv("PANPIPE_UPDATE") != nullptr) write_file(kRefusals, found);
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace panpipe::test
