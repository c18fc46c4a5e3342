// Training with experts over ranks: losses, gradients, parameters and optimizer state of one process, also when resumed with
// other degrees.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/exec/training_fixture.hpp"

namespace panpipe::exec {
namespace {

class ExpertTraining : public testing::Test {
 protected:
  // Eight microbatches over all replicas.
  std::string model_on(const Mesh& mesh, const std::string& extra) const {
    return scenario_on(mesh, fmt::format("config: {}, sequence: 8", config_),
                       fmt::format("{{micro: 2, microbatches: {}}}", 8 / mesh.data), extra);
  }

  const Folder folder_;
  const std::string config_ = folder_.write(
      "config.json",
      R"({"model_type": "qwen2_moe", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 48,)"
      R"( "intermediate_size": 24, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8,)"
      R"( "shared_expert_intermediate_size": 12})");
};

TEST_F(ExpertTraining, EqualsOneProcess) {
  const Trained one = train(model_on({}, kSgd));
  for (const auto& [mesh, extra] : {std::pair{Mesh{1, 2, 1, 1, 2}, kSgd},
                                    {Mesh{2, 2, 1, 1, 2}, kSgd + "schedule: zb-h1\n"},
                                    {Mesh{1, 4, 1, 1, 2, ", zero: 1"}, kSgd},
                                    {Mesh{2, 2, 1, 1, 2, ", zero: 1"}, kSgd + "schedule: dualpipe\n"},
                                    {Mesh{1, 2, 2, 1, 4, ", sequence_parallel: true, expert_tensor: 1, zero: 1"}, kSgd},
                                    {Mesh{1, 2, 2, 1, 2, ", sequence_parallel: true"}, kSgd},
                                    {Mesh{2, 2, 1, 1, 2}, kSgd + "recompute: full\n"},
                                    {Mesh{2, 2, 1, 1, 2}, kSgd + "schedule: {name: seq-1f1b, sequence_splits: 2}\n"}}) {
    SCOPED_TRACE(mesh.text() + " " + extra);
    expect_equal(train(model_on(mesh, extra)), one);
  }
}

// Clipped by the norm of all gradients: each rank's experts count once.
TEST_F(ExpertTraining, ClipsByTheNormOfOneProcess) {
  const std::string clip = kSgd + "training: {clip_gradients: 0.05}\n";
  const Trained one = train(model_on({}, clip));
  expect_equal(train(model_on({1, 2, 1, 1, 2}, clip)), one);
  expect_equal(train(model_on({1, 4, 1, 1, 2, ", zero: 1"}, clip)), one);
}

// A checkpoint holds all experts, each once: any degrees go on from it.
TEST_F(ExpertTraining, CheckpointsAreReadWithOtherDegrees) {
  const Trained one = train(model_on({}, kSgd), 4);
  const Mesh meshes[] = {{1, 2, 1, 1, 2}, {}, {1, 4, 1, 1, 4}, {1, 4, 1, 1, 2, ", zero: 1"}, {2, 2, 1, 1, 1}, {2, 2, 1, 1, 2}};
  for (std::size_t i = 0; i + 1 < std::size(meshes); ++i) {
    SCOPED_TRACE(i);
    expect_close(resumed(model_on(meshes[i], kSgd), model_on(meshes[i + 1], kSgd)), one.state, 2e-5);
  }
}

TEST_F(ExpertTraining, DroppedTokensAreRefusedInWords) {
  const std::string file = folder_.write("s.yaml", model_on({1, 2, 1, 1, 2}, "experts: {capacity: 1.0}\n"));
  EXPECT_THAT(run_threads(file, quiet(file, 1)).error(), testing::HasSubstr("the executor drops and pads no tokens"));
}

}  // namespace
}  // namespace panpipe::exec
