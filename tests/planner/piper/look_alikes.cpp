#include "tests/planner/piper/look_alikes.hpp"

#include <random>

namespace panpipe::planner::piper {
namespace {

constexpr double kBandwidth = 25e9;

PlanningProblem empty_problem(int devices, int microbatches, double memory, std::vector<int> degrees) {
  PlanningProblem problem;
  problem.degrees = std::move(degrees);
  problem.devices = devices;
  problem.microbatches = microbatches;
  problem.memory = memory;
  problem.bandwidth = kBandwidth;
  return problem;
}

// Time (one device, plain), parameters and activations of a layer; recompute adds a third of the time and keeps `kept` of the
// activations, which are then made again once.
struct Size {
  double time, parameters, activations, kept;
};

int add_layer(PlanningProblem& problem, const std::string& name, const Size& size) {
  Layer layer;
  layer.name = name;
  for (const int t : problem.degrees) {
    // Sharded work loses a tenth with every doubling.
    double time = size.time / t;
    for (int k = 1; k < t; k *= 2) time *= 1.1;
    const double share = size.kept + (1 - size.kept) / t, parameters = size.parameters / t;
    const double plain = size.activations * share, lean = size.activations * size.kept;
    layer.choices.push_back({{"plain", false, time, parameters, plain, 2 * parameters, {}, {}},
                             {"recompute", true, time * 4 / 3, parameters, lean, 2 * parameters + plain - lean, {}, {}}});
  }
  problem.layers.push_back(layer);
  return static_cast<int>(problem.layers.size()) - 1;
}

void connect(PlanningProblem& problem, int from, int to, double bytes) { problem.edges.push_back({from, to, bytes}); }

}  // namespace

PlanningProblem bert_like(int layers, int devices, int microbatches, double memory) {
  PlanningProblem problem = empty_problem(devices, microbatches, memory, {1, 2, 4, 8});
  std::mt19937 random(1);
  const double hidden = 31.5e6, mask_bytes = 16.8e6;
  const int mask = add_layer(problem, "mask", {0, 0, 0, 0.5});
  int last = add_layer(problem, "embedding", {0.004, 240e6, 63e6, 0.5});
  for (int i = 0; i < layers; ++i) {
    const double noise = 1 + 1e-3 * static_cast<double>(random() % 100) / 100;  // measured layers are never quite equal
    const int next = add_layer(problem, "layer" + std::to_string(i), {0.03 * noise, 177e6, 606e6, 0.08});
    connect(problem, last, next, hidden);
    connect(problem, mask, next, mask_bytes);
    last = next;
  }
  const int head = add_layer(problem, "head", {0.001, 15e6, 8e6, 0.5});
  connect(problem, last, head, hidden);
  return problem;
}

PlanningProblem resnet_like(int devices, int microbatches, double memory) {
  PlanningProblem problem = empty_problem(devices, microbatches, memory, {1});
  int last = -1, count = 0;
  const auto add = [&](const Size& size, int from) {
    const int next = add_layer(problem, "node" + std::to_string(count++), size);
    if (from >= 0) connect(problem, from, next, size.activations);
    return next;
  };
  for (int i = 0; i < 4; ++i) last = add({8, 4e4, 400e6, 0.09}, last);
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage)
    for (int block = 0; block < blocks[stage]; ++block) {
      const double bytes = 100e6 / (1 << stage), parameters = 7e4 * (1 << (2 * stage));
      const int input = last;
      for (int i = 0; i < 8; ++i) last = add({2.0 + 0.1 * i, i % 3 == 0 ? parameters : 0, bytes, 0.09}, last);
      int shortcut = input;
      if (block == 0)
        for (int i = 0; i < 2; ++i) shortcut = add({2.5, i == 0 ? parameters : 0, 2 * bytes, 0.09}, shortcut);
      const int sum = add({1, 0, 2 * bytes, 0.09}, last);
      connect(problem, shortcut, sum, 2 * bytes);
      last = add({1, 0, 2 * bytes, 0.09}, sum);
    }
  for (int i = 0; i < 5; ++i) last = add({0.3, i == 3 ? 8e6 : 0, 1e6, 0.09}, last);
  return problem;
}

PlanningProblem gnmt_like(int devices, int microbatches, double memory) {
  PlanningProblem problem = empty_problem(devices, microbatches, memory, {1});
  std::mt19937 random(2);
  const auto size = [&] {
    const double weight = 1 + static_cast<double>(random() % 1000) / 100;
    return Size{weight, 4e6 * weight, 8e6 * weight, 0.09};
  };
  const int first = add_layer(problem, "input", size());
  std::vector<int> ends;
  for (int branch = 0; branch < 3; ++branch) {
    int last = first;
    for (int i = 0; i < (branch == 2 ? 26 : 25); ++i) {
      const int next = add_layer(problem, "branch" + std::to_string(branch) + "." + std::to_string(i), size());
      connect(problem, last, next, 13e6);
      last = next;
    }
    ends.push_back(last);
  }
  const int output = add_layer(problem, "output", size());
  for (const int end : ends) connect(problem, end, output, 13e6);
  return problem;
}

}  // namespace panpipe::planner::piper
