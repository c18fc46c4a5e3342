// Models against transformers and torch: parameters to the last one, and the operations of a forward pass, which count_models.py
// counted and wrote into counted_models.json (transformers 5.24.0, the last 30 rows 5.23; torch 2.11.0).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/input/cached_document.hpp"
#include "costmodel/workload/model_config.hpp"
#include "costmodel/workload/workload.hpp"

namespace panpipe {
namespace {

std::int64_t number(const Node& row, const char* key) { return std::stoll(row.find(key)->text); }

ModelConfig config_of(const Node& row) {
  return read_model_config(*row.find("config"), row.find("sequence") ? static_cast<int>(number(row, "sequence")) : 32);
}

Workload workload_of(const ModelConfig& config) {
  WorkloadRequest request;
  request.config = std::make_shared<ModelConfig>(config);
  return make_workload(request, {.degrees = {.micro = 1}, .precision = Precision::Bf16});
}

TEST(CountedModels, HaveTheParametersOfTransformers) {
  const auto rows = cached_document(PANPIPE_COUNTED_MODELS);
  std::set<std::string> types;
  for (const auto& row : rows->items) {
    const Node& file = *row->find("config");
    types.insert(file.find("model_type")->text);
    EXPECT_EQ(workload_of(config_of(*row)).parameters, number(*row, "parameters"))
        << file.find("model_type")->text << ' ' << file.line;
  }
  EXPECT_EQ(types.size(), 94U);
}

// Scores under a causal mask count whole on both sides. The product of a router reads all hidden features on both.
TEST(CountedModels, HaveTheOperationsOfTorch) {
  const auto rows = cached_document(PANPIPE_COUNTED_MODELS);
  int counted = 0;
  for (const auto& row : rows->items) {
    if (row->find("tokens") == nullptr) continue;
    const Node& file = *row->find("config");
    ModelConfig config = read_model_config(file, static_cast<int>(number(*row, "tokens")));
    EXPECT_DOUBLE_EQ(workload_of(config).model_flops.base() / 3, static_cast<double>(number(*row, "forward_flops")))
        << file.find("model_type")->text << ' ' << file.line;
    ++counted;
  }
  EXPECT_EQ(counted, 33);
}

// Every key that a class of transformers writes is read, known to be of no effect, or reported.
TEST(CountedModels, HaveNoKeyThatIsUnknown) {
  for (const auto& row : cached_document(PANPIPE_COUNTED_MODELS)->items)
    for (const Diagnostic& fault : config_of(*row).not_followed)
      ADD_FAILURE() << row->find("config")->find("model_type")->text << ": " << fault.message;
}

}  // namespace
}  // namespace panpipe
