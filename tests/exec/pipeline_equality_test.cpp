// A pipeline computes what one process computes: losses and gradients of every cut, schedule and model.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/exec/pipeline_equality.hpp"

namespace panpipe::exec {
namespace {

TEST(Pipeline, EqualsOneProcessForEveryModelAndSchedule) {
  for (const std::string model : {"gpt", "llama", "bert"}) {
    const Workload workload = small_model(model);
    const Trained one = alone(workload, 4);
    EXPECT_GT(one.gradients.size(), 10u);
    EXPECT_NEAR(one.loss, std::log(96.0) + (model == "bert" ? std::log(2.0) : 0.0), 0.4)
        << "an untrained model knows nothing: the loss is ln(classes)";
    for (const std::string family : {"gpipe", "1f1b", "zb-h1"}) {
      for (const int ranks : {2, 4}) {
        SCOPED_TRACE(model + " " + family + " on " + std::to_string(ranks));
        expect_equal(one, train(workload, family, ranks, 4));
      }
    }
    SCOPED_TRACE(model + " interleaved");
    expect_equal(one, train(workload, "interleaved-1f1b", 2, 4, 1, {{"stages_per_rank", "2"}}));
  }
}

// A U-Net's skips pass over the stages between; a Vision Transformer is cut like any other.
TEST(Pipeline, EqualsOneProcessForImages) {
  for (const std::string model : {"vit", "unet"}) {
    const Workload workload = small_model(model);
    const Trained one = alone(workload, 4);
    EXPECT_GT(one.gradients.size(), 10u);
    if (model == "vit") {
      EXPECT_NEAR(one.loss, std::log(10.0), 0.4);
    }
    expect_equal(one, train(workload, "zb-h1", 2, 4));
    expect_equal(one, train(workload, "1f1b", 4, 4));
    SCOPED_TRACE(model + " interleaved");
    expect_equal(one, train(workload, "interleaved-1f1b", 2, 4, 1, {{"stages_per_rank", "2"}}));
  }
}

}  // namespace
}  // namespace panpipe::exec
