// panpipe fit: what it refuses, word by word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.hpp"
#include "tests/temporary_folder.hpp"
#include "validation/fit/fit.hpp"

namespace panpipe::test {
namespace {

using testing::HasSubstr;

std::string file_with(const std::string& name, const std::string& text) { return scratch().write(name, text); }

Outcome refused(const std::string& arguments) {
  const Outcome run = panpipe("fit " + arguments);
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_EQ(run.out, "");
  return run;
}

class FitVerb : public testing::Test {
 protected:
  void SetUp() override {
    if (!validation::fit_available()) GTEST_SKIP() << "built without Ceres";
  }
  const std::string rows_ = file_with("panpipe_fit_rows.csv",
                                      "id,gpu,layers,hidden,seq,global_batch,step_s\n"
                                      "a,A100-80G-SXM,2,1024,1024,4,0.1\nb,H100-SXM,2,1024,1024,4,0.05\n");
};

TEST_F(FitVerb, ADeviceWithoutADataSheet) {
  EXPECT_EQ(refused(rows_ + " --device B9000").err, "--device: error: there is no data sheet of 'B9000'\n");
}

TEST_F(FitVerb, ADeviceThatNoRowWasMeasuredOn) {
  EXPECT_EQ(refused(rows_ + " --device RTX3090").err,
            "--device: error: none of the 2 rows was measured on RTX3090 and can be predicted; they have "
            "A100-80G-SXM, H100-SXM\n");
}

TEST_F(FitVerb, FewerRowsThanNumbers) {
  EXPECT_EQ(refused(rows_ + " --device H100-SXM").err,
            "error: 1 row cannot determine 12 numbers\n"
            "  help: give more rows; or fit fewer numbers, as in --only gemm_efficiency; or let the rows correct predictions "
            "without a fit, which one row can do: panpipe estimate SCENARIO --evidence RUNS.csv\n");
}

TEST_F(FitVerb, RowsToLeaveOutThatAreNotThere) {
  EXPECT_EQ(refused(rows_ + " --device H100-SXM --without c").err, "--without: error: no row has the id or source 'c'\n");
}

TEST_F(FitVerb, AColumnThatIsNearlyOneOfOurs) {
  const std::string path = file_with("panpipe_fit_column.csv", "id,gpu,step_s,layer\na,H100-SXM,0.05,2\n");
  EXPECT_EQ(refused(path + " --device H100-SXM").err, path +
                                                          ":1:15: error: there is no column 'layer'\n"
                                                          "    1 | id,gpu,step_s,layer\n"
                                                          "      |               ^\n"
                                                          "  help: did you mean 'layers'?\n");
}

TEST_F(FitVerb, ANumberThatIsNotFitted) {
  const Outcome run = refused(rows_ + " --device H100-SXM --only gemm");
  EXPECT_THAT(run.err, HasSubstr("--only: error: there is no 'gemm', did you mean 'gemm_efficiency'?"));
}

}  // namespace
}  // namespace panpipe::test
