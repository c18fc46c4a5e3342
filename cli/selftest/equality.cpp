// Training on several ranks equals training in one process.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "cli/selftest/steps.hpp"
#include "exec/launch/run_options.hpp"

namespace panpipe::cli {
namespace {

constexpr double kMostSecondsOfRun = 180;

struct Split {
  int pipeline = 1, tensor = 1, data = 1;
  std::string schedule = "1f1b";
  int ranks() const { return pipeline * tensor * data; }
  std::string text() const {
    std::string parts;
    const auto add = [&](const char* name, int degree) {
      if (degree > 1) parts += fmt::format("{}{} {}", parts.empty() ? "" : " x ", name, degree);
    };
    add("pipeline", pipeline);
    add("tensor", tensor);
    add("data", data);
    return parts + (pipeline > 1 ? ", " + schedule : "");
  }
};

// A few families and axes for two, fewer for more: each run loads LibTorch anew.
std::vector<Split> splits_of(int ranks, bool quick) {
  if (quick && ranks == 2) return {{2, 1, 1, "zb-h1"}, {1, 1, 2}};
  if (quick) return {{ranks, 1, 1, "zb-h1"}};
  if (ranks == 2) return {{2, 1, 1, "1f1b"}, {2, 1, 1, "interleaved-1f1b"}, {2, 1, 1, "zb-h1"}, {1, 2, 1}, {1, 1, 2}};
  if (ranks == 4) return {{4, 1, 1, "1f1b"}, {2, 2, 1, "zb-h1"}, {2, 1, 2, "interleaved-1f1b"}};
  std::vector<Split> splits = {{ranks, 1, 1, "zb-h1"}};
  if (ranks % 4 == 0) splits.push_back({ranks / 4, 2, 2, "1f1b"});
  return splits;
}

// Milliseconds a step, and of everything enough to cut: a layer and two microbatches for each of the most ranks.
std::string scenario_of(const Split& split, int most_ranks) {
  return fmt::format(
      "panpipe: 1\n"
      "cluster: {{devices: {}, memory: 4 GiB, link: {{latency: 10 us, bandwidth: 10 GB/s}}}}\n"
      "workload: {{model: gpt, layers: {}, hidden: 32, heads: 4, vocabulary: 96, sequence: 16}}\n"
      "batch: {{micro: 1, global: {}}}\n"
      "optimizer: {{name: sgd, learning_rate: 0.1}}\n"
      "parallel: {{pipeline: {}, tensor: {}, data: {}}}\n"
      "schedule: {}\n",
      split.ranks(), std::max(4, most_ranks), 2 * std::max(4, most_ranks), split.pipeline, split.tensor, split.data,
      split.schedule);
}

TrainedSteps steps_in(const std::string& file) {
  TrainedSteps steps;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const auto document = nlohmann::json::parse(line, nullptr, false);
    const auto number = [&](const char* key) {  // what is no number is written as null
      return document.is_object() && document.contains(key) && document[key].is_number() ? document[key].get<double>()
                                                                                         : std::nan("");
    };
    steps.emplace_back(number("loss"), number("gradient_norm"));
  }
  return steps;
}

}  // namespace

std::string difference_of(const TrainedSteps& found, const TrainedSteps& expected, double of_losses, double of_norms) {
  if (found.size() != expected.size()) return fmt::format("{} steps in place of {}", found.size(), expected.size());
  for (std::size_t step = 0; step < found.size(); ++step) {
    const auto differs = [](double a, double b, double tolerance) { return !(std::abs(a - b) <= tolerance * std::abs(b)); };
    if (differs(found[step].first, expected[step].first, of_losses))
      return fmt::format("the loss of step {} is {:.7g} in place of {:.7g}", step + 1, found[step].first, expected[step].first);
    if (differs(found[step].second, expected[step].second, of_norms))
      return fmt::format("the gradient norm of step {} is {:.7g} in place of {:.7g}", step + 1, found[step].second,
                         expected[step].second);
  }
  return "";
}

StepReport try_equality(Trial& trial) {
  StepReport report;
  const std::vector<int> worlds = trial.worlds();
  const auto train = [&](const Split& split, const std::string& transport, const std::string& name) {
    exec::RunRequest run = trial.run_request(trial.folder.write(name + ".yaml", scenario_of(split, worlds.back())), transport);
    run.steps = 3;
    run.metrics = trial.folder.file(name + ".jsonl");
    run.threads = trial.on_gpus() ? 0 : 1;
    return trial.run(this_program("run", to_arguments(run)), kMostSecondsOfRun);
  };
  const ChildEnd alone = train({}, "local", "alone");
  if (!alone.done()) {
    report.done = false;
    report.text = "one process cannot train";
    report.troubles.push_back({true, "one process cannot train: " + last_words(alone), remedy_after(alone, "local")});
    return report;
  }
  const TrainedSteps expected = steps_in(trial.folder.file("alone.jsonl"));
  // fp32 sums of another order; kernels of a GPU differ more with the shapes that a split gives them.
  const double of_losses = trial.on_gpus() ? 1e-4 : 1e-5, of_norms = trial.on_gpus() ? 1e-3 : 1e-4;
  int tried = 0, equal = 0;
  for (const int ranks : worlds) {
    for (const Split& split : splits_of(ranks, trial.request.quick)) {
      const std::string transport = trial.transport(ranks), name = fmt::format("split-{}", ++tried);
      const ChildEnd end = train(split, transport, name);
      const std::string difference =
          end.done() ? difference_of(steps_in(trial.folder.file(name + ".jsonl")), expected, of_losses, of_norms)
                     : "it failed: " + last_words(end);
      report.figures["runs"].push_back({{"ranks", ranks},
                                        {"pipeline", split.pipeline},
                                        {"tensor", split.tensor},
                                        {"data", split.data},
                                        {"schedule", split.schedule},
                                        {"transport", transport},
                                        {"difference", difference}});
      if (difference.empty()) {
        ++equal;
        continue;
      }
      report.troubles.push_back(
          {true, fmt::format("{} over {} does not equal one process: {}", split.text(), transport, difference),
           end.done() ? "call it again: numbers that change from call to call speak for broken memory or links (nvidia-smi -q -d "
                        "ECC, dmesg); else send the report in: it is a fault of Panpipe"
                      : remedy_after(end, transport)});
    }
  }
  report.text =
      fmt::format("{} of {} ways to train on {} equal one process: losses to {:g}, gradient norms to {:g}", equal, tried,
                  worlds.size() == 1 ? trial.ranks_text(worlds.back())
                                     : fmt::format("{} to {}", worlds.front(), trial.ranks_text(worlds.back())),
                  of_losses, of_norms);
  return report;
}

}  // namespace panpipe::cli
