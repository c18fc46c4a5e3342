#include "base/files/file_hash.hpp"

#include <gtest/gtest.h>

#include "tests/temporary_folder.hpp"

namespace panpipe {
namespace {

TEST(FileHash, OfTextAndFileIsSha256) {
  const test::TemporaryFolder folder;
  const std::string abc = folder.write("abc", "abc");
  // FIPS 180-2, B.1.
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of_file(abc), sha256_of("abc"));
  std::string blocks;  // several, and a part of one
  for (int i = 0; i < 50000; ++i) blocks += std::to_string(i);
  EXPECT_EQ(sha256_of_file(folder.write("blocks", blocks)), sha256_of(blocks));
  EXPECT_EQ(sha256_of_file(folder.path()), sha256_of(""));
  EXPECT_EQ(sha256_of_file(folder.file("none")), sha256_of(""));
}

TEST(FileHash, TheSameContentsHaveAnyName) {
  const test::TemporaryFolder folder;
  const std::string a = folder.write("a", "one"), b = folder.write("b", "one");
  EXPECT_TRUE(same_contents(a, folder.file("./a")));
  EXPECT_TRUE(same_contents(a, b));
  EXPECT_FALSE(same_contents(a, folder.write("other", "two")));
  EXPECT_FALSE(same_contents(a, folder.write("longer", "ones")));
  EXPECT_FALSE(same_contents(a, folder.file("none")));
}

}  // namespace
}  // namespace panpipe
