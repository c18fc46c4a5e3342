#include "app/evidence/next_piece.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "app/evidence/piece_readers.hpp"
#include "app/evidence/read_evidence.hpp"
#include "base/error.hpp"
#include "base/text/json_writer.hpp"
#include "base/text/percent.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/prediction/prediction.hpp"

namespace panpipe::app {
namespace {

constexpr int kSteps = 10;
constexpr double kStartSeconds = 60;  // of a job before its first step: assumed
// Seconds of the programs on idle devices: assumed.
constexpr double kSecondsOfTable = 60, kSecondsOfDevice = 300, kSecondsOfProfile = 60;
constexpr double kAsShown = 0.001;    // half widths that differ by less look alike
constexpr double kLeastGain = 0.005;  // of a half width: less is not worth a measurement
constexpr std::size_t kShown = 8;
constexpr double kShares[] = {0.1, 0.3, 0.5, 0.7, 0.9};  // quantiles of a measurement

struct Question {
  const UncertaintyPrior& prior;
  StepTraits step;
  std::vector<ComparedStep> given;

  // The mean over what the measurements may turn out to be: a result as expected narrows more than one far out.
  double width_after(const std::vector<ComparedStep>& measured) const {
    double sum = 0;
    for (const double share : kShares) {
      std::vector<ComparedStep> all = given;
      for (const ComparedStep& each : measured) {
        all.push_back(each);
        all.back().off = StepPosterior(prior, given, each.of).distribution_of(each).quantile(share);
      }
      sum += half_width(StepPosterior(prior, all, step.of).distribution(step));
    }
    return sum / static_cast<double>(std::size(kShares));
  }
};

struct Variant {
  Scenario scenario;
  Plan plan;
  StepFigures figures;
};

std::optional<Variant> variant_of(const std::function<Scenario(const std::vector<std::string>&)>& load,
                                  const std::vector<std::string>& set) {
  try {
    const Experiment experiment(load(set));
    Plan plan = experiment.plan("");
    StepFigures figures = step_figures(lower(experiment.scenario, plan, experiment.model), experiment.scenario, plan);
    if (!figures.fits) return std::nullopt;
    return Variant{experiment.scenario, std::move(plan), std::move(figures)};
  } catch (const InputError&) {  // this machine or model has no such plan
  } catch (const NoAnswer&) {
  }
  return std::nullopt;
}

bool states(const Scenario& scenario, const char* key) { return scenario.document && scenario.document->find(key) != nullptr; }

// Keys one by one: what else the scenario states of its split stays.
std::vector<std::string> split_of(const Scenario& scenario, const Plan& own, int tensor, int pipeline, int data) {
  std::vector<std::string> set = {fmt::format("parallel.pipeline={}", pipeline), fmt::format("parallel.tensor={}", tensor),
                                  fmt::format("parallel.data={}", data)};
  if (pipeline != own.pipeline && states(scenario, "partition")) set.emplace_back("partition=auto");
  if (own.pipeline > 1 || pipeline > 1) set.emplace_back("schedule=1f1b");
  return set;
}

// Plans that are cheaper than the scenario's, or divide otherwise.
std::vector<std::vector<std::string>> other_plans(const Scenario& scenario, const Plan& plan) {
  std::vector<std::vector<std::string>> sets = {{}};
  const int count = plan.schedule.microbatches, micro = plan.micro;
  const auto batch = [&](int samples, int microbatches) {
    return std::vector<std::string>{fmt::format("batch.micro={}", samples), fmt::format("batch.microbatches={}", microbatches)};
  };
  const int few = std::max(plan.pipeline, count / 4);
  if (few < count) sets.push_back(batch(micro, few));
  sets.push_back(batch(2 * micro, few));
  if (micro > 1) sets.push_back(batch(micro / 2, few));
  for (const int tensor : {1, 2, 4, 8})
    for (const int pipeline : {1, 2, 4, 8, 16})
      for (const int data : {1, 2, 8}) {
        const int gpus = tensor * pipeline * data, all = static_cast<int>(plan.devices.size());
        if (gpus > all || (tensor == plan.tensor && pipeline == plan.pipeline && data == plan.data)) continue;
        std::vector<std::string> set = batch(micro, std::max(pipeline, std::min(count, 8)));
        for (std::string& each : split_of(scenario, plan, tensor, pipeline, data)) set.push_back(std::move(each));
        const int in_node = scenario.cluster.node.front().devices;
        if (scenario.cluster.nodes > 1 && gpus <= in_node) set.push_back("cluster.nodes=1");
        sets.push_back(std::move(set));
      }
  return sets;
}

std::string listed(const std::vector<std::string>& set) {
  std::string text;
  for (const std::string& each : set) text += (text.empty() ? "" : ", ") + each;
  return text;
}

std::string set_options(const std::vector<std::string>& set) {
  std::string text;
  for (const std::string& each : set)
    text += each.find_first_of(" {}") == std::string::npos ? " --set " + each : fmt::format(" --set '{}'", each);
  return text;
}

std::vector<std::string> commands_of_steps(const std::string& name, const std::vector<std::string>& set,
                                           const Scenario& scenario) {
  const std::string job = set.empty() ? name : "small/scenario.yaml";
  std::vector<std::string> commands;
  if (!set.empty()) commands.push_back(fmt::format("panpipe estimate {}{} -o small", name, set_options(set)));
  if (scenario.framework.name == "panpipe")
    commands.push_back(fmt::format("panpipe run {} --steps {} -o measured", job, kSteps));
  else
    commands.push_back(fmt::format("train {} steps of {} with your trainer, and keep its log as run.log", kSteps, job));
  const char* log = scenario.framework.name == "panpipe" ? "measured/result.json" : "run.log";
  commands.push_back(fmt::format("name it in the scenario: evidence: [{{log: {}, job: {}}}]", log, job));
  return commands;
}

void add_steps(const std::string& name, const std::function<Scenario(const std::vector<std::string>&)>& load,
               const Question& question, const Variant& own, NextPiece& next) {
  for (const std::vector<std::string>& set : other_plans(own.scenario, own.plan)) {
    const std::optional<Variant> variant = variant_of(load, set);
    if (!variant || variant->figures.traits.machine != own.figures.traits.machine) continue;
    ComparedStep step;
    static_cast<StepTraits&>(step) = variant->figures.traits;
    PossiblePiece piece;
    piece.kind = "log";
    piece.set = set;
    piece.what = !set.empty()             ? fmt::format("{} steps with {}", kSteps, listed(set))
                 : question.given.empty() ? fmt::format("{} steps of the scenario itself", kSteps)
                                          : fmt::format("{} steps of the scenario itself, in another run", kSteps);
    piece.commands = commands_of_steps(name, set, own.scenario);
    piece.gpus = static_cast<int>(variant->plan.devices.size());
    piece.step_time_s = variant->figures.step_time_s;
    piece.gpu_seconds = piece.gpus * (kStartSeconds + kSteps * piece.step_time_s);
    piece.half_width_after = question.width_after({step});
    next.pieces.push_back(std::move(piece));
  }
}

void add_programs(const std::string& name, const Question& question, const Variant& own, NextPiece& next) {
  const Cluster& cluster = own.scenario.cluster;
  const auto add = [&](const char* kind, std::string what, std::vector<std::string> commands, int gpus, double seconds,
                       const std::vector<ComparedStep>& measured) {
    PossiblePiece piece;
    piece.kind = kind;
    piece.what = std::move(what);
    piece.commands = std::move(commands);
    piece.gpus = gpus;
    piece.gpu_seconds = gpus * seconds;
    piece.half_width_after = question.width_after(measured);
    next.pieces.push_back(std::move(piece));
  };
  const int in_node = std::min(cluster.node.front().devices, cluster.size());
  const std::string use = fmt::format("panpipe estimate {} --evidence ", name);
  if (in_node > 1)
    add("collectives", fmt::format("an nccl-tests table of the {} devices of a node", in_node),
        {fmt::format("all_reduce_perf -b 1M -e 1G -f 2 -g {} > nccl.txt", in_node), use + "nccl.txt"}, in_node, kSecondsOfTable,
        {in_direction(Direction::Node, 0)});
  if (cluster.nodes > 1)
    add("collectives", fmt::format("an nccl-tests table over the {} nodes", cluster.nodes),
        {fmt::format("mpirun -np {} --map-by ppr:{}:node all_reduce_perf -b 1M -e 1G -f 2 -g 1 > nccl.txt", cluster.size(),
                     in_node),
         use + "nccl.txt"},
        cluster.size(), kSecondsOfTable, {in_direction(Direction::Network, 0)});
  const std::string device = cluster.types.front().kind == "gpu" ? "cuda" : "cpu";
  std::vector<ComparedStep> of_device;
  for (const Direction direction : directions_of_device(own.scenario)) of_device.push_back(in_direction(direction, 0));
  if (!of_device.empty())
    add("device", "the numbers of one device",
        {fmt::format("panpipe measure-device --device {} -o device.yaml", device), use + "device.yaml"}, 1, kSecondsOfDevice,
        of_device);
  add("profile", "the units of this model on one device",
      {fmt::format("panpipe profile {} --device {} --ranks 1 -o profile.yaml", name, device), use + "profile.yaml"}, 1,
      kSecondsOfProfile,
      {in_direction(Direction::Products, 0), in_direction(Direction::MemoryTraffic, 0), in_direction(Direction::Attention, 0)});
}

}  // namespace

NextPiece next_piece(const std::string& name, const std::function<Scenario(const std::vector<std::string>&)>& load) {
  const Experiment experiment(with_evidence(load({})));
  if (has_given_costs(experiment.scenario))
    throw NoAnswer("the costs of this scenario are given, not predicted: no evidence narrows them");
  Plan plan = experiment.plan("");
  StepFigures figures = step_figures(lower(experiment.scenario, plan, experiment.model), experiment.scenario, plan);
  const UncertaintyPrior& prior = shipped_evidence().prior;
  Question question{prior, figures.traits, {}};
  NextPiece next;
  if (experiment.scenario.given_evidence) {
    WeighedEvidence weighed = weigh(*experiment.scenario.given_evidence, prior, figures.traits);
    question.given = std::move(weighed.counting);
    next.given = std::move(weighed.pieces);
  }
  next.half_width = question.width_after({});
  const Variant own{experiment.scenario, std::move(plan), std::move(figures)};
  add_steps(name, load, question, own, next);
  add_programs(name, question, own, next);
  std::erase_if(next.pieces, [&](const PossiblePiece& piece) { return !piece.is_repeat() && !next.narrows(piece); });
  std::stable_sort(next.pieces.begin(), next.pieces.end(), [](const PossiblePiece& a, const PossiblePiece& b) {
    const auto level = [](const PossiblePiece& piece) { return std::round(piece.half_width_after / kAsShown); };
    return std::pair(level(a), a.gpu_seconds) < std::pair(level(b), b.gpu_seconds);
  });
  return next;
}

bool NextPiece::narrows(const PossiblePiece& piece) const { return piece.half_width_after <= half_width - kLeastGain; }

std::string to_text(const NextPiece& next) {
  std::string text = fmt::format("half width of the 80 % interval now: {}\n", percent(next.half_width));
  for (const EvidencePiece& piece : next.given)
    if (!piece.left_out.empty()) text += fmt::format("left out: {} ({}): {}\n", piece.file, piece.kind, piece.left_out);
  const auto line = [](const PossiblePiece& piece) {
    return fmt::format("{}: expected {}, about {:.0f} GPU minutes on {} GPU{}\n", piece.what, percent(piece.half_width_after),
                       std::ceil(piece.gpu_seconds / 60), piece.gpus, piece.gpus == 1 ? "" : "s");
  };
  if (next.pieces.empty() || !next.narrows(next.pieces.front())) {
    text += "nothing that panpipe knows of is expected to narrow it by half a percentage point\n";
    return next.pieces.empty() ? text : text + line(next.pieces.front());
  }
  text += "next, since it narrows most: " + line(next.pieces.front());
  for (const std::string& command : next.pieces.front().commands) text += "    " + command + "\n";
  const auto cheapest = std::min_element(next.pieces.begin(), next.pieces.end(), [&](const auto& a, const auto& b) {
    const auto halves = [&](const PossiblePiece& piece) {  // at least half of what the best one gives
      return 2 * (next.half_width - piece.half_width_after) >= next.half_width - next.pieces.front().half_width_after;
    };
    return std::pair(!halves(a), a.gpu_seconds) < std::pair(!halves(b), b.gpu_seconds);
  });
  if (cheapest != next.pieces.begin()) {
    text += "cheapest that gives at least half of that: " + line(*cheapest);
    for (const std::string& command : cheapest->commands) text += "    " + command + "\n";
  }
  if (next.pieces.size() > 1) text += "others, by what they narrow:\n";
  for (std::size_t p = 1; p < std::min(next.pieces.size(), kShown); ++p)
    if (next.pieces.begin() + static_cast<std::ptrdiff_t>(p) != cheapest) text += "  " + line(next.pieces[p]);
  if (next.pieces.size() > kShown) text += fmt::format("  and {} more; --json has them\n", next.pieces.size() - kShown);
  return text;
}

std::string to_json(const NextPiece& next) {
  JsonWriter out;
  out.object(JsonLayout::Lines).field("schema", "panpipe-evidence-next/1").field("half_width", next.half_width);
  out.list("left_out", JsonLayout::Lines);
  for (const EvidencePiece& piece : next.given)
    if (!piece.left_out.empty())
      out.object().field("file", piece.file).field("kind", piece.kind).field("left_out", piece.left_out).end();
  out.end().list("pieces", JsonLayout::Lines);
  for (const PossiblePiece& piece : next.pieces) {
    out.object().field("kind", piece.kind).field("what", piece.what).field("set", piece.set).field("commands", piece.commands);
    out.field("gpus", piece.gpus).field("gpu_seconds", piece.gpu_seconds);
    out.field("step_time_s", piece.step_time_s > 0 ? std::optional(piece.step_time_s) : std::nullopt);
    out.field("half_width_after", piece.half_width_after).end();
  }
  return out.end().end().finish() + "\n";
}

}  // namespace panpipe::app
