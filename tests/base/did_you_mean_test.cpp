#include "base/text/did_you_mean.hpp"

#include <gtest/gtest.h>

namespace panpipe {
namespace {

TEST(DidYouMean, NearestName) {
  const std::vector<std::string> keys = {"memory", "micro", "microbatches", "link"};
  EXPECT_EQ(nearest_name("memroy", keys), "memory");  // two neighbours swapped
  EXPECT_EQ(nearest_name("Memory", keys), "memory");  // case
  EXPECT_EQ(nearest_name("micro_batches", keys), "microbatches");
  EXPECT_EQ(nearest_name("lnk", keys), "link");                                              // one edit is always allowed
  EXPECT_EQ(nearest_name("microb", keys), "micro");                                          // near wins over ...
  EXPECT_EQ(nearest_name("interleaved", {"1f1b", "interleaved-1f1b"}), "interleaved-1f1b");  // ... the beginning of a name
  EXPECT_EQ(nearest_name("frequency", keys), std::nullopt);
  EXPECT_EQ(nearest_name("x", {"y"}), std::nullopt);  // every letter replaced is no likeness
  EXPECT_EQ(nearest_name("", keys), std::nullopt);
}

TEST(DidYouMean, OneFormOfTheSentence) {
  const std::vector<std::string> names = {"estimate", "simulate"};
  EXPECT_EQ(suggestion("simulat", names), ", did you mean 'simulate'?");
  EXPECT_EQ(suggestion("paint", names), "");
  EXPECT_EQ(suggestion("paint", names, "; there are two"), "; there are two");
  EXPECT_EQ(suggestion_or_list("simulat", names), ", did you mean 'simulate'?");
  EXPECT_EQ(suggestion_or_list("paint", names), "; there are estimate, simulate");
  EXPECT_EQ(did_you_mean("a/b.yaml"), "did you mean 'a/b.yaml'?");
}

}  // namespace
}  // namespace panpipe
