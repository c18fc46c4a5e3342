// A pipeline computes what one process computes: losses and gradients of every cut, schedule and model.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <thread>

#include "exec/engine/parameters.hpp"
#include "exec/engine/worker.hpp"

namespace panpipe::exec {
namespace {

struct Trained {
  double loss = 0;                              // mean over microbatches
  std::map<std::string, at::Tensor> gradients;  // by parameter name, summed over holders
};

Workload small(const std::string& model) {
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
  if (model == "llama") request.ffn = 64;
  return make_workload(request, {.microbatch = 2, .tensor_degree = 1, .sequence_parallel = false, .precision = Precision::Fp32});
}

// Token ids, labels and pixels that depend on (input, sample) alone.
DataSource synthetic(const OperatorGraph& graph, std::int64_t classes) {
  return [&graph, classes](int input, std::int64_t sample) {
    const Tensor& tensor = graph.tensors[static_cast<std::size_t>(input)];
    const at::Tensor counted = at::arange(tensor.elements(), at::kLong) * 31 + sample * 17 + input * 7;
    if (tensor.dtype == DType::Float32) return counted.to(at::kFloat).sin().reshape(tensor.shape);
    return counted.remainder(classes).reshape(tensor.shape);
  };
}

Plan plan_of(const OperatorGraph& graph, const std::string& family, int ranks, int microbatches, int data = 1,
             const ScheduleOptions& options = {}) {
  Plan plan;
  plan.pipeline = ranks;
  plan.data = data;
  plan.schedule = make_schedule(family, ranks, microbatches, options);
  const int units = static_cast<int>(graph.units.size());
  for (int s = 0; s < plan.schedule.stages; ++s)
    plan.stages.push_back({units * s / plan.schedule.stages, units * (s + 1) / plan.schedule.stages, Recompute::None});
  return plan;
}

Trained train(const OperatorGraph& graph, const Plan& plan) {
  const Layout layout = make_layout(graph, plan);
  const int ranks = plan.pipeline * plan.data;
  const auto transports = make_local_transports(ranks);
  std::vector<std::unique_ptr<SeededParameters>> parameters;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<int> stages;
    for (int s = 0; s < plan.schedule.stages; ++s)
      if (plan.schedule.stage_to_rank[static_cast<std::size_t>(s)] == rank / plan.data) stages.push_back(s);
    parameters.push_back(std::make_unique<SeededParameters>(graph, layout, stages, 7));
  }
  Trained result;
  std::vector<std::thread> threads;
  std::vector<double> losses(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Worker worker(graph, plan, layout, rank / plan.data, rank % plan.data, *parameters[static_cast<std::size_t>(rank)],
                    synthetic(graph, graph.name.find("bert") == 0 ? 2
                                     : graph.name == "vit"        ? 10
                                                                  : 90),
                    *transports[static_cast<std::size_t>(rank)], {.seed = 7});
      losses[static_cast<std::size_t>(rank)] = worker.step(0).loss_sum;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const double loss : losses) result.loss += loss / (layout.microbatches * plan.data);
  for (const auto& store : parameters) {
    for (const auto& [tensor, value] : store->trained()) {
      if (!value.grad().defined()) continue;
      at::Tensor& sum = result.gradients[graph.tensors[static_cast<std::size_t>(tensor)].name];
      sum = sum.defined() ? sum.add(value.grad()) : value.grad();
    }
  }
  return result;
}

void expect_equal(const Trained& one, const Trained& other) {
  EXPECT_NEAR(other.loss, one.loss, 1e-5 * std::abs(one.loss));
  ASSERT_EQ(other.gradients.size(), one.gradients.size());
  // Where all of a parameter's gradients are rounding errors (a bias in front of a normalization), fp32 resolves no more than a
  // 1e-7th of the largest gradient of all.
  double largest = 0;
  for (const auto& [name, gradient] : one.gradients) largest = std::max(largest, gradient.abs().max().item<double>());
  for (const auto& [name, gradient] : one.gradients) {
    const at::Tensor& found = other.gradients.at(name);
    const double scale = std::max(gradient.abs().max().item<double>(), 1e-2 * largest);
    EXPECT_LE((found - gradient).abs().max().item<double>(), 1e-5 * scale + 1e-9) << name;
  }
}

TEST(Pipeline, EqualsOneProcessForEveryModelAndSchedule) {
  for (const std::string model : {"gpt", "llama", "bert"}) {
    const Workload workload = small(model);
    const Trained one = train(*workload.graph, plan_of(*workload.graph, "gpipe", 1, 4));
    EXPECT_GT(one.gradients.size(), 10u);
    EXPECT_NEAR(one.loss, std::log(96.0) + (model == "bert" ? std::log(2.0) : 0.0), 0.4)
        << "an untrained model knows nothing: the loss is ln(classes)";
    for (const std::string family : {"gpipe", "1f1b", "zb-h1"}) {
      for (const int ranks : {2, 4}) {
        SCOPED_TRACE(model + " " + family + " on " + std::to_string(ranks));
        expect_equal(one, train(*workload.graph, plan_of(*workload.graph, family, ranks, 4)));
      }
    }
    SCOPED_TRACE(model + " interleaved");
    expect_equal(one, train(*workload.graph, plan_of(*workload.graph, "interleaved-1f1b", 2, 4, 1, {{"stages_per_rank", "2"}})));
  }
}

// A U-Net's skips pass over the stages between; a Vision Transformer is cut like any other.
TEST(Pipeline, EqualsOneProcessForImages) {
  for (const std::string model : {"vit", "unet"}) {
    const Workload workload = small(model);
    const Trained one = train(*workload.graph, plan_of(*workload.graph, "gpipe", 1, 4));
    EXPECT_GT(one.gradients.size(), 10u);
    if (model == "vit") {
      EXPECT_NEAR(one.loss, std::log(10.0), 0.4);
    }
    expect_equal(one, train(*workload.graph, plan_of(*workload.graph, "zb-h1", 2, 4)));
    expect_equal(one, train(*workload.graph, plan_of(*workload.graph, "1f1b", 4, 4)));
    SCOPED_TRACE(model + " interleaved");
    expect_equal(one, train(*workload.graph, plan_of(*workload.graph, "interleaved-1f1b", 2, 4, 1, {{"stages_per_rank", "2"}})));
  }
}

}  // namespace
}  // namespace panpipe::exec
