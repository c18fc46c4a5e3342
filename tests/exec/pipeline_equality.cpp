#include "tests/exec/pipeline_equality.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <tuple>

#include "base/input/yaml_document.hpp"
#include "costmodel/plan/slots.hpp"
#include "costmodel/workload/model_config.hpp"
#include "exec/engine/context/context_graph.hpp"
#include "exec/engine/mesh.hpp"
#include "exec/engine/tensor_parallel_shards.hpp"
#include "tests/exec/step_on_threads.hpp"

namespace panpipe::exec {
namespace {

// Token ids, labels and pixels that depend on (input, sample) alone.
DataSource counted_data(const OperatorGraph& graph, bool ignore_labels) {
  const std::int64_t classes = graph.name.find("bert") == 0 ? 2 : graph.name == "vit" ? 10 : 90;
  return [&graph, classes, ignore_labels](int input, std::int64_t sample) {
    const Tensor& tensor = graph.tensors[input];
    const at::Tensor counted = at::arange(tensor.elements(), at::kLong) * 31 + sample * 17 + input * 7;
    if (tensor.dtype == DType::Float32) return counted.to(at::kFloat).sin().reshape(tensor.shape);
    const at::Tensor ids = counted.remainder(classes).reshape(tensor.shape);
    if (!ignore_labels || tensor.name != "labels") return ids;
    const at::Tensor position = at::arange(tensor.shape[1], at::kLong);
    return ids.masked_fill((position * 7 + sample).remainder(tensor.shape[1]).ge(position), -100);
  };
}

// Sums what ranks hold copies of, puts shards together.
std::map<std::string, at::Tensor> whole_gradients(const OperatorGraph& graph, const Plan& plan,
                                                  const std::vector<RankStep>& ranks) {
  std::map<int, std::vector<at::Tensor>> by_shard;  // root -> sum per neighbour that holds a part
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const auto& [root, value] : ranks[rank].parameters->trained()) {
      if (!value.grad().defined()) continue;
      const int sharing = devices_that_share(graph.tensors[root], plan);
      const auto shard = static_cast<std::size_t>(device_of_position(plan, static_cast<int>(rank)) % sharing);
      auto& sums = by_shard[root];
      sums.resize(sharing);
      sums[shard] = sums[shard].defined() ? sums[shard].add(value.grad()) : value.grad();
    }
  }
  std::map<std::string, at::Tensor> gradients;
  for (const auto& [root, sums] : by_shard) {
    const Tensor& parameter = graph.tensors[root];
    std::vector<at::Tensor> shards;
    for (const int first : first_holders(parameter, plan)) {
      at::Tensor sum;
      for (const int peer : gradient_peers(parameter, first, plan)) {
        const at::Tensor& part = sums[peer];
        if (!part.defined()) continue;
        sum = sum.defined() ? sum.add(part) : part;
      }
      shards.push_back(sum);
    }
    gradients[parameter.name] = whole_of(parameter, shards);
  }
  return gradients;
}

}  // namespace

WorkloadRequest small_request(const std::string& model) {
  WorkloadRequest request;
  request.model = model;
  request.layers = model == "unet" ? 1 : 4;
  request.hidden = 32;
  request.heads = 4;
  if (model == "vit") {
    request.image = 16;
    request.patch = 4;
    request.classes = 10;
  } else if (model == "unet") {
    request.image = 16;
    request.sequence = 5;
  } else {
    request.vocabulary = 96;
    request.sequence = 16;
  }
  if (model == "llama" || model == "mllm") request.ffn = 64;
  if (model == "mllm") {  // 4 x 4 patches of 4 pixels: 4 tokens of 16
    request.image = 16;
    request.patch = 4;
    request.vision_layers = 2;
    request.vision_hidden = 16;
    request.vision_heads = 4;
  }
  return request;
}

namespace {

std::string small_config(const std::string& type) {
  std::string text =
      "{model_type: " + type +
      ", hidden_size: 32, num_hidden_layers: 4, num_attention_heads: 4, intermediate_size: 48, ffn_dim: 48, vocab_size: 96, "
      "max_position_embeddings: 16";
  if (type == "gemma2" || type == "gemma3_text" || type == "gpt_oss") text += ", head_dim: 8, sliding_window: 5";
  if (type == "mistral") text += ", sliding_window: 5, num_key_value_heads: 2";
  if (type == "gemma" || type == "qwen3") text += ", head_dim: 8";
  if (type == "gpt_oss" || type == "gemma3_text" || type == "phi3" || type == "qwen3") text += ", num_key_value_heads: 2";
  if (type == "falcon") text += ", new_decoder_architecture: true, num_kv_heads: 2, bias: true";
  if (type == "opt") text += ", word_embed_proj_dim: 16";
  if (type.rfind("deepseek", 0) == 0)
    text +=
        ", num_experts_per_tok: 2, n_routed_experts: 4, q_lora_rank: 16, kv_lora_rank: 8, qk_nope_head_dim: 8, "
        "qk_rope_head_dim: 4, v_head_dim: 6, moe_intermediate_size: 16, first_k_dense_replace: 1";
  if (type == "qwen2_moe" || type == "qwen3_moe")
    text +=
        ", num_experts: 4, num_experts_per_tok: 2, moe_intermediate_size: 16, shared_expert_intermediate_size: 24, head_dim: 8";
  if (type == "gpt_oss" || type == "mixtral") text += ", num_local_experts: 4, num_experts_per_tok: 2";
  return text + "}";
}

}  // namespace

WorkloadRequest small_config_request(const std::string& type) {
  const auto document = parse_document(small_config(type), "config.json", ".");
  WorkloadRequest request;
  request.config = std::make_shared<ModelConfig>(read_model_config(*document, 16));
  return request;
}

Workload small_config_model(const std::string& type, const WorkloadShape& shape) {
  return make_workload(small_config_request(type), shape);
}

namespace {

WorkloadShape small_shape(int tensor, bool sequence_parallel) {
  return {.degrees = {.tensor = tensor, .micro = 2, .sequence_parallel = sequence_parallel}, .precision = Precision::Fp32};
}

}  // namespace

Workload small_model(const std::string& model, int tensor, bool sequence_parallel) {
  return make_workload(small_request(model), small_shape(tensor, sequence_parallel));
}

Workload small_config_model(const std::string& type, int tensor, bool sequence_parallel) {
  return small_config_model(type, small_shape(tensor, sequence_parallel));
}

SliceGraph small_slices(const std::string& model, int splits, int tensor, bool sequence_parallel) {
  const Workload whole = small_model(model, tensor, sequence_parallel);
  return slice_graph(small_request(model), small_shape(tensor, sequence_parallel), *whole.graph, splits);
}

SharedModel shared_model(const WorkloadRequest& request, WorkloadShape shape) {
  const Workload part = make_workload(request, shape);
  shape.degrees.context = 1;
  SharedModel made{make_workload(request, shape), {}};
  made.part = context_graph(*part.graph, *made.whole.graph);
  return made;
}

SharedModel small_shared(const std::string& model, int context, ContextExchange exchange, int tensor, bool sequence_parallel) {
  WorkloadShape shape = small_shape(tensor, sequence_parallel);
  shape.degrees.context = context;
  shape.exchange = exchange;
  return shared_model(small_request(model), shape);
}

Plan plan_over(const OperatorGraph& graph, Schedule schedule, int data, Recompute recompute) {
  Plan plan;
  plan.pipeline = schedule.ranks;
  plan.data = data;
  plan.tensor = graph.degrees.tensor;
  plan.context = graph.degrees.context;
  plan.expert = graph.degrees.expert;
  plan.expert_tensor = graph.degrees.expert_tensor;
  plan.schedule = std::move(schedule);
  plan.stages.resize(plan.schedule.stages);
  const int units = static_cast<int>(graph.units.size());
  std::vector<UnitRange> ranges;
  if (const SlotCounts slots = slot_counts(plan.schedule); slots.any())
    ranges =
        slot_ranges(std::vector<SlotUnit>(graph.units.size(), {"", Duration(1), Duration(3)}), slots.forward, slots.backward);
  for (const std::vector<int>& chain : plan.schedule.chains) {
    for (std::size_t k = 0; k < ranges.size(); ++k) plan.stages[chain[k]] = {ranges[k].first, ranges[k].end, recompute};
    if (!ranges.empty()) continue;
    const int parts = static_cast<int>(chain.size());
    for (int k = 0; k < parts; ++k) plan.stages[chain[k]] = {units * k / parts, units * (k + 1) / parts, recompute};
  }
  return plan;
}

Plan plan_of(const OperatorGraph& graph, const std::string& family, int ranks, int microbatches, int data,
             const ScheduleOptions& options) {
  return plan_over(graph, make_schedule(family, ranks, microbatches, options), data);
}

Trained train(const OperatorGraph& whole, const Plan& plan, const SliceGraph* slices, bool ignore_labels,
              const RecomputeScope& recompute) {
  const OperatorGraph& graph = slices ? slices->graph : whole;
  StageLayout layout = make_stage_layout(graph, plan, slices ? slices->cut : std::vector<int>{});
  choose_recomputed(graph, plan, recompute, layout);
  Trained result;
  try {
    std::vector<RankStep> ranks = step_on_threads(graph, plan, layout, counted_data(whole, ignore_labels));
    for (RankStep& rank : ranks) {
      result.loss += rank.result.loss_sum / (layout.microbatches * plan.data);
      result.spans.push_back(std::move(rank.result.spans));
    }
    result.gradients = whole_gradients(graph, plan, ranks);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  return result;
}

Trained train(const Workload& workload, const std::string& family, int ranks, int microbatches, int data,
              const ScheduleOptions& options) {
  return train(*workload.graph, plan_of(*workload.graph, family, ranks, microbatches, data, options));
}

Trained train(const Workload& workload, Schedule schedule, int data, Recompute recompute) {
  return train(*workload.graph, plan_over(*workload.graph, std::move(schedule), data, recompute));
}

Trained alone(const Workload& workload, int microbatches, bool ignore_labels) {
  return train(*workload.graph, plan_of(*workload.graph, "gpipe", 1, microbatches), nullptr, ignore_labels);
}

const Trained& alone(const std::string& model, int microbatches, bool ignore_labels) {
  static std::map<std::tuple<std::string, int, bool>, Trained> known;
  const auto [found, first] = known.try_emplace({model, microbatches, ignore_labels});
  if (first) found->second = alone(small_model(model), microbatches, ignore_labels);
  return found->second;
}

void expect_equal(const Trained& one, const Trained& other) {
  EXPECT_NEAR(other.loss, one.loss, 1e-5 * std::abs(one.loss));
  ASSERT_EQ(other.gradients.size(), one.gradients.size());
  // Where all of a parameter's gradients are rounding errors (a key's bias, which softmax does not see), fp32 resolves no more
  // than a 1e-8th of the largest gradient of all; a 1e-7th in front of a U-Net's group normalizations, which sum over whole
  // images.
  double largest = 0;
  for (const auto& [name, gradient] : one.gradients) largest = std::max(largest, gradient.abs().max().item<double>());
  for (const auto& [name, gradient] : one.gradients) {
    ASSERT_TRUE(other.gradients.count(name)) << name;
    const at::Tensor& found = other.gradients.at(name);
    ASSERT_EQ(found.sizes(), gradient.sizes()) << name;
    const bool in_residual_block = name.find(".resnets.") != std::string::npos && name.ends_with(".bias");
    const double floor = in_residual_block ? 1e-2 : 1e-3;
    const double scale = std::max(gradient.abs().max().item<double>(), floor * largest);
    EXPECT_LE((found - gradient).abs().max().item<double>(), 1e-5 * scale + 1e-9) << name;
  }
}

}  // namespace panpipe::exec
