// The model's units as functions, cut, placed and ordered as the plan states.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "base/error.hpp"
#include "base/input/reader.hpp"
#include "base/input/source_text.hpp"
#include "base/text/json_writer.hpp"
#include "jobs/export_parts.hpp"
#include "jobs/torch/program.hpp"
#include "jobs/torch/schedules.hpp"
#include "jobs/torch/words.hpp"
#include "jobs/trainer_jobs.hpp"

namespace panpipe::jobs {
namespace {

// The parts of the script that are the same for every model and plan: imports; operators that ATen lacks; model, data, training.
std::array<std::string, 3> fixed_parts() {
  constexpr std::string_view kMark = "\n# part: ";
  const std::string text = read_text_file(data_directory() + "/trainers/torch_script.py");
  std::array<std::string, 3> parts;
  std::size_t mark = text.find(kMark);
  for (std::string& part : parts) {
    if (mark == std::string::npos) throw InputError("trainers/torch_script.py of the data folder has too few parts");
    const std::size_t begin = text.find('\n', mark + 1) + 1;
    mark = text.find(kMark, begin);
    part = text.substr(begin, mark == std::string::npos ? mark : mark + 1 - begin);
  }
  return parts;
}

bool splits_backward(const Schedule& schedule) { return has_action(schedule, ActionKind::I); }

std::string stages_text(const Plan& plan, bool recompute) {
  std::string text =
      "# Stages: first unit, one past the last, whether each block is computed again in the backward.\nSTAGES = [\n";
  for (const int s : plan.schedule.chains.front()) {
    const StagePlan& stage = plan.stages[s];
    text += fmt::format("    ({}, {}, {}),\n", stage.first_unit, stage.end_unit,
                        recompute && stage.recompute == Recompute::Full ? "True" : "False");
  }
  return text + "]\n";
}

std::string optimizer_text(const Scenario& scenario) {
  const OptimizerRequest& o = scenario.optimizer;
  std::string settings;
  const bool of_matrices = o.name == "muon" || o.name == "soap" || o.name == "shampoo";
  if (o.name == "adam" || o.name == "adamw" || of_matrices)
    settings = fmt::format(", \"lr\": {}, \"betas\": ({}, {}), \"eps\": {}, \"weight_decay\": {}", o.learning_rate, o.beta1,
                           o.beta2, o.epsilon, o.weight_decay);
  else if (o.name != "none")
    settings = fmt::format(", \"lr\": {}, \"momentum\": {}, \"weight_decay\": {}", o.learning_rate, o.momentum, o.weight_decay);
  const std::string name = o.name == "momentum" ? "sgd" : of_matrices ? "adamw" : o.name;
  const TrainingRequest& t = scenario.training;
  using Decay = TrainingRequest::Decay;
  const std::map<Decay, const char*> decays = {
      {Decay::Constant, "constant"}, {Decay::Linear, "linear"}, {Decay::Cosine, "cosine"}, {Decay::InverseSqrt, "inverse_sqrt"}};
  return fmt::format(
      "OPTIMIZER = {{\"name\": {}{}}}\n"
      "RATE = {{\"warmup\": {}, \"decay\": {}, \"start\": {}, \"steps\": {}, \"minimum\": {}}}\n"
      "CLIP = {}  # largest norm of the gradients; 0: any\n",
      json_text(name), settings, t.warmup_steps, json_text(decays.at(t.decay)), t.decay_start, t.decay_steps,
      t.minimum_learning_rate, t.clip_gradients);
}

std::string data_text(const Scenario& scenario, ExportedJob& job) {
  const DataRequest& data = scenario.data;
  if (data.shuffle) job.cannot.emplace_back("data.shuffle: samples are taken in the order of the file");
  if (data.held_out > 0) job.cannot.emplace_back("data.held_out: samples are taken from the whole file");
  if (data.kind == DataRequest::Kind::Synthetic) return "DATA = {\"kind\": \"synthetic\"}\n";
  return fmt::format("DATA = {{\"kind\": {}, \"file\": {}, \"width\": {}}}\n",
                     data.kind == DataRequest::Kind::Tokens ? "\"tokens\"" : "\"tensors\"",
                     json_text(std::filesystem::absolute(data.file).lexically_normal().string()), data.width);
}

// The script does what `panpipe run` does, also where the scenario leaves that open.
void report_open(const Scenario& scenario, ExportedJob& job) {
  std::vector<std::string> open;
  for (const char* path : {"optimizer.learning_rate", "training.clip_gradients", "training.decay", "seed", "data"})
    if (!states(scenario, path)) open.emplace_back(path);
  if (!open.empty())
    job.besides.push_back(fmt::format("The scenario does not state {}: the script takes what panpipe run takes. Add your own.",
                                      fmt::join(open, ", ")));
}

void report(const ExportRequest& request, const TorchProgram& program, bool split, ExportedJob& job) {
  const Scenario& scenario = request.experiment.scenario;
  const Plan& plan = request.plan;
  const Recompute most = recompute_of(plan, job);
  if (most == Recompute::Selective)
    job.cannot.emplace_back("selective recompute: nothing is recomputed");
  else if (most == Recompute::Full && split)
    job.cannot.emplace_back("recompute beside backwards that are split into input and weight gradients: nothing is recomputed");
  else if (most == Recompute::Full && !scenario.recompute_scope.plain())
    job.cannot.emplace_back("recompute of some of the blocks: each block is recomputed by itself");
  if (plan.zero > 1) job.cannot.push_back(fmt::format("ZeRO {}: the optimizer's state alone is divided (ZeRO 1)", plan.zero));
  if (scenario.precision == Precision::Fp16) job.cannot.emplace_back("the dynamic loss scale of fp16: gradients are not scaled");
  const Precision kept[] = {Precision::Fp32, Precision::Tf32, Precision::Bf16, Precision::Fp16};
  if (std::find(std::begin(kept), std::end(kept), scenario.precision) == std::end(kept))
    job.cannot.push_back(fmt::format("precision {}: parameters are kept in fp32, products are in {}", name_of(scenario.precision),
                                     name_of(compute_dtype(scenario.precision))));
  if (program.dropout || scenario.workload.dropout > 0)
    job.cannot.emplace_back("the dropout masks that panpipe run draws: losses differ");
  report_optimizer(scenario, job);
  if (const std::string& name = scenario.optimizer.name; name == "muon" || name == "soap" || name == "shampoo")
    job.cannot.push_back(fmt::format("optimizer {}: it trains with AdamW", name));
}

}  // namespace

ExportedJob export_torch(const ExportRequest& request) {
  const Scenario& scenario = request.experiment.scenario;
  const Plan& plan = request.plan;
  const TorchProgram program = torch_program(*request.experiment.workload.graph);
  const TorchOrder order = torch_order(plan.schedule);
  const bool split = splits_backward(plan.schedule);
  ExportedJob job;
  const std::string data = data_text(scenario, job);
  report(request, program, split, job);
  report_open(scenario, job);
  report_the_rest(request, job);
  const std::string file = request.file.empty() ? "FILE" : std::filesystem::path(request.file).filename().string();
  job.besides.push_back(fmt::format("{} {} --steps {}", launch_text(request), file, steps_of_run(request).value_or(10)));
  std::vector<int> placement;
  for (const int s : plan.schedule.chains.front()) placement.push_back(plan.schedule.stage_to_rank[s]);

  const auto [imports, own_operators, training] = fixed_parts();
  std::string text =
      "#!/usr/bin/env python3\n" + head_text(request, "A training script for torch.distributed.pipelining", job, "# ");
  text += imports;
  text += fmt::format("SEED = {}\nMICROBATCHES = {}\nDATA_RANKS = {}\nZERO = {}\nTF32 = {}\n", scenario.seed,
                      plan.schedule.microbatches, plan.data, std::min(plan.zero, 1),
                      scenario.precision == Precision::Tf32 ? "True" : "False");
  text += optimizer_text(scenario) + data;
  text += fmt::format("PLACEMENT = [{}]  # the pipeline rank of each stage\n", fmt::join(placement, ", "));
  text += fmt::format("SCHEDULE = {}  # a schedule of PyTorch; empty: as ORDER says\n", json_text(order.name));
  text += "ORDER = \"\"\"\n" + (order.name.empty() ? order.csv : std::string()) + "\"\"\"\n";
  text += stages_text(plan, !split) + "\n";
  if (program.own_operators) text += own_operators;
  job.text = text + "\n" + program.text + training;
  return job;
}

}  // namespace panpipe::jobs
