// Scenarios and workloads of these tests, and the closed forms they are held against.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>

#include "costmodel/cost/cost_model.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

struct GptCase {
  int hidden = 6144, heads = 64, layers = 2, sequence = 2048, vocabulary = 51200;
  int micro = 4, tensor = 8, pipeline = 1, data = 1;
  bool sequence_parallel = false;
  std::string precision = "fp16", framework = "megatron", cluster = "dgx-a100-80g";
  int nodes = 1;
  std::string extra;  // further YAML lines
};

// A model with the scenario and the workload it refers to.
struct Made {
  Scenario scenario;
  Workload workload;
  std::unique_ptr<CostModel> model;

  const WorkloadCost& cost() const { return model->workload(0); }
  Degrees degrees() const { return scenario.degrees; }
};

inline std::unique_ptr<Made> make(const std::string& yaml) {
  auto made = std::make_unique<Made>();
  made->scenario = parse_scenario(yaml, "test", ".");
  const Scenario& s = made->scenario;
  made->workload = make_workload(s);
  made->model = std::make_unique<CostModel>(s, made->workload);
  return made;
}

inline std::unique_ptr<Made> make_gpt(const GptCase& c) {
  return make(fmt::format(R"(panpipe: 1
cluster: {{file: clusters/{}.yaml, nodes: {}}}
workload: {{model: gpt, layers: {}, hidden: {}, heads: {}, sequence: {}, vocabulary: {}}}
batch: {{micro: {}, microbatches: 8}}
precision: {}
parallel: {{pipeline: {}, tensor: {}, data: {}, sequence_parallel: {}}}
framework: {}
{})",
                          c.cluster, c.nodes, c.layers, c.hidden, c.heads, c.sequence, c.vocabulary, c.micro, c.precision,
                          c.pipeline, c.tensor, c.data, c.sequence_parallel, c.framework, c.extra));
}

// The units of transformer layer 0 together.
struct Layer {
  Breakdown forward, input_gradient, weight_gradient, recompute_full, recompute_selective;
  int forward_launches = 0, backward_launches = 0;
  double forward_beside = 0, backward_beside = 0;  // seconds of other work of the host
  double saved = 0, saved_selective = 0, saved_full = 0, kept_for_weight = 0;
};

inline Layer layer_of(const WorkloadCost& cost, int layer = 0) {
  Layer sum;
  for (const UnitCost& u : cost.units) {
    if (u.layer != layer) continue;
    sum.forward = sum.forward + u.forward.breakdown;
    sum.input_gradient = sum.input_gradient + u.input_gradient.breakdown;
    sum.weight_gradient = sum.weight_gradient + u.weight_gradient.breakdown;
    sum.recompute_full = sum.recompute_full + u.recompute_full.breakdown;
    sum.recompute_selective = sum.recompute_selective + u.recompute_selective.breakdown;
    sum.forward_launches += u.forward.host.launches;
    sum.backward_launches += u.input_gradient.host.launches + u.weight_gradient.host.launches;
    sum.forward_beside += u.forward.host.other.base();
    sum.backward_beside += (u.input_gradient.host.other + u.weight_gradient.host.other).base();
    sum.saved += static_cast<double>(u.saved.base());
    sum.saved_selective += static_cast<double>(u.saved_selective.base());
    sum.saved_full += static_cast<double>(u.saved_full.base());
    sum.kept_for_weight += static_cast<double>(u.kept_for_weight.base());
  }
  return sum;
}

}  // namespace panpipe
