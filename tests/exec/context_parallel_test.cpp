// Stages of ranks that share sequences compute what one process computes: losses and every gradient.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.hpp"
#include "exec/engine/context/context_attention.hpp"
#include "exec/engine/context/sequence_share.hpp"
#include "tests/exec/pipeline_equality.hpp"

namespace panpipe::exec {
namespace {

constexpr ContextExchange kExchanges[] = {ContextExchange::Ring, ContextExchange::AllGather, ContextExchange::Ulysses};

std::string name_of(ContextExchange exchange) {
  return exchange == ContextExchange::Ring ? "ring" : exchange == ContextExchange::AllGather ? "all-gather" : "ulysses";
}

Trained alone(const std::string& model, int microbatches, bool ignore_labels = false) {
  const Workload workload = small_model(model);
  return train(*workload.graph, plan_of(*workload.graph, "gpipe", 1, microbatches), nullptr, ignore_labels);
}

Trained shared(const SharedModel& model, const Plan& plan, bool ignore_labels = false) {
  return train(*model.whole.graph, plan, &model.part, ignore_labels);
}

// 16 tokens: of four ranks each has two chunks of two.
TEST(ContextParallel, EqualsOneProcess) {
  for (const std::string model : {"gpt", "llama"}) {
    const Trained one = alone(model, 2);
    for (const ContextExchange exchange : kExchanges)
      for (const int degree : {2, 4}) {
        SCOPED_TRACE(model + " " + name_of(exchange) + " over " + std::to_string(degree));
        const SharedModel both = small_shared(model, degree, exchange);
        expect_equal(one, shared(both, plan_of(both.part.graph, "gpipe", 1, 2)));
      }
  }
}

}  // namespace
}  // namespace panpipe::exec
