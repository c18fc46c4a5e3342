// Megatron-LM's layouts of stages, and lists with repeats.
#include "jobs/megatron/layout.hpp"

#include <gtest/gtest.h>

#include "jobs/repeats.hpp"

namespace panpipe::jobs {
namespace {

TEST(MegatronLayout, LayersOfStagesInTheOrderOfTheModel) {
  const MegatronLayout layout = read_layout("Et*2|(t*3|)*2,t mL");
  ASSERT_EQ(layout.problem, "");
  ASSERT_EQ(layout.stages.size(), 4U);
  EXPECT_TRUE(layout.stages[0].embedding);
  EXPECT_EQ(layout.stages[0].layers, 2);
  EXPECT_EQ(layout.stages[1].layers, 3);
  EXPECT_EQ(layout.stages[2].layers, 3);
  EXPECT_EQ(layout.stages[3].layers, 1);
  EXPECT_EQ(layout.stages[3].predictors, 1);
  EXPECT_TRUE(layout.stages[3].loss);
  EXPECT_EQ(layout.layers(), 9);
}

TEST(MegatronLayout, FaultsAreSentences) {
  EXPECT_EQ(read_layout("Et*2|x").problem, "holds 'x', which is not known");
  EXPECT_EQ(read_layout("E(t*2|").problem, "has a '(' without its pair");
  EXPECT_EQ(read_layout("Et*2)L").problem, "has a ')' without its pair");
  EXPECT_EQ(read_layout("Et*").problem, "repeats a part '' times");
  EXPECT_EQ(read_layout("Et*0").problem, "repeats a part '0' times");
  EXPECT_EQ(read_layout("Et*99999999999999999999").problem, "repeats a part '99999999999999999999' times");
  EXPECT_EQ(read_layout("(((t*4096)*4096)*4096)*4096").problem, "is too long");
}

TEST(Repeats, GroupsOfTwoKindsWithinEachOther) {
  EXPECT_EQ(expand_repeats("([1]*3+[0])*2", "()[]", 100).flat, "111+0111+0");
  EXPECT_EQ(expand_repeats("[0,1)", "()[]", 100).problem, "has a ')' without its pair");
  EXPECT_EQ(expand_repeats("", "()", 100).flat, "");
  EXPECT_EQ(expand_repeats("a*11", "()", 10).problem, "repeats a part '11' times");
  EXPECT_EQ(expand_repeats("()*10", "()", 10).flat, "");
}

}  // namespace
}  // namespace panpipe::jobs
