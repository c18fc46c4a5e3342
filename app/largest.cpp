#include "app/largest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>

#include "app/plan_question.hpp"
#include "base/error.hpp"
#include "base/option_fault.hpp"
#include "base/stop.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "costmodel/timeline/memory_curve.hpp"
#include "costmodel/timeline/memory_room.hpp"
#include "schedule/find_family.hpp"

namespace panpipe::app {
namespace {

using study::Ladder;
using study::LargestOf;
using study::TriedValue;

constexpr int kMostSamples = 1 << 16;  // of a microbatch
constexpr int kMostTokens = 1 << 24;
constexpr int kTokens = 64;  // sequences are multiples of it: kernels are made for such sizes

// Not a refusal of the value that was searched.
struct SearchStopped : NoAnswer {
  SearchStopped() : NoAnswer("stopped before it was known which value is the largest") {}
};

const char* key_of(LargestOf of) { return of == LargestOf::Micro ? "batch.micro" : "workload.sequence"; }

bool states_samples(const Scenario& scenario) {
  const Node* batch = scenario.document ? scenario.document->find("batch") : nullptr;
  return batch != nullptr && batch->kind == NodeKind::Map && batch->find("global") != nullptr;
}

int samples_of(const Degrees& degrees) { return degrees.micro * degrees.microbatches * degrees.data; }

// A sequence that all ranks and slices which divide it divide evenly. A search may choose any context degree.
int tokens_step(const Scenario& scenario, bool searched) {
  const Degrees& degrees = scenario.degrees;
  const int context = searched ? scenario.cluster.size() : degrees.context;
  int step = std::lcm(kTokens, 2 * context);  // a context rank has two parts (context_parallel.cpp)
  if (degrees.sequence_parallel) step = std::lcm(step, degrees.tensor);
  const ScheduleFamily* family = find_family(scenario.schedule.name);
  std::optional<std::string> splits = family != nullptr ? default_option(*family, "sequence_splits") : std::nullopt;
  if (const auto stated = scenario.schedule.options.find("sequence_splits"); stated != scenario.schedule.options.end())
    splits = stated->second;
  if (splits == "P") splits = std::to_string(degrees.pipeline);
  if (splits)
    if (const auto number = parse_integer(*splits).value; number && *number > 0) step = std::lcm(step, static_cast<int>(*number));
  return step;
}

// The tasks of a plan, with what the allocator makes of its memory, at a value.
void describe_step(const TaskGraph& graph, TriedValue& tried) {
  const std::vector<DeviceTimeline> devices = memory_of_ranks(graph, estimate_times(graph));
  const DeviceTimeline& fullest = *fullest_device(devices);
  tried.need = fullest.peak;
  tried.limit = fullest.limit;
  tried.parts = fullest.peak_parts;
}

// The steps of a scenario on one type of device.
class Steps {
 public:
  Steps(const LargestSource& source, LargestOf of, std::vector<std::string> of_device, const std::function<void(int)>& trying)
      : source_(source), of_(of), of_device_(std::move(of_device)), trying_(trying), base_(source.load(of_device_)) {
    if (!source_.plan_file.empty() && of_ == LargestOf::Micro) {
      const Experiment stated(base_);
      plan_ = stated.plan(source_.plan_file);
    }
  }

  const Scenario& base() const { return base_; }

  TriedValue at(int value) const {
    if (trying_) trying_(value);
    TriedValue tried;
    tried.value = value;
    try {
      source_.search ? search(value, tried) : estimate(value, tried);
    } catch (const SearchStopped&) {
      throw;
    } catch (const InputError& error) {
      tried.refused = error.diagnostics().empty() ? error.what() : error.diagnostics().front().message;
    } catch (const NoAnswer& error) {
      tried.refused = error.what();
    }
    return tried;
  }

 private:
  Scenario scenario_at(int value) const {
    std::vector<std::string> more = of_device_;
    more.push_back(fmt::format("{}={}", key_of(of_), value));
    if (of_ == LargestOf::Micro && !source_.search && states_samples(base_))  // its microbatches stay
      more.push_back(fmt::format("batch.global={}", value * base_.degrees.microbatches * base_.degrees.data));
    return source_.load(more);
  }

  // The plan of a file decides the microbatch, so no override may.
  void estimate_plan_of_file(int value, TriedValue& tried) const {
    Scenario scenario = base_;
    Plan plan = *plan_;
    scenario.degrees.micro = plan.micro = value;
    tried.samples = samples_of(plan);
    const Experiment experiment(std::move(scenario));
    describe_step(answered(experiment.scenario, plan, experiment.model), tried);
  }

  void estimate(int value, TriedValue& tried) const {
    if (plan_) return estimate_plan_of_file(value, tried);
    const Experiment experiment(scenario_at(value));
    const Plan plan = experiment.plan(source_.plan_file);
    tried.samples = samples_of(plan);
    describe_step(answered(experiment.scenario, plan, experiment.model), tried);
  }

  void search(int value, TriedValue& tried) const {
    const Experiment experiment(scenario_at(value));
    const planner::Answer answer = source_.search(experiment);
    throw_if_stopped();
    if (answer.interrupted) throw SearchStopped();
    if (answer.candidates.empty()) {
      tried.refused = answer.reason.empty() ? "no feasible plan" : answer.reason;
      return;
    }
    const planner::Candidate& best = answer.candidates.front();
    tried.plan = best.summary;
    tried.samples = samples_of(*best.plan);
    const Scenario chosen = planner::with_choices(experiment.scenario, best);
    const Workload workload = make_workload(chosen, *best.plan);
    describe_step(answered(chosen, *best.plan, CostModel(chosen, workload)), tried);
  }

  const LargestSource& source_;
  LargestOf of_;
  std::vector<std::string> of_device_;
  const std::function<void(int)>& trying_;
  Scenario base_;
  std::optional<Plan> plan_;
};

void check_asked(const Scenario& scenario, LargestOf of, const std::string& name) {
  if (is_measured(scenario))
    throw option_fault("largest", fmt::format("{} has measured costs, which hold for the sizes of their measurement", name),
                       "without a profile, and with a model in place of measured layers, any size is predicted", code::kConflict);
  if (of == LargestOf::Sequence && tokens_per_sample(make_workload(scenario)) == 0)
    throw option_fault("largest", fmt::format("the model of {} reads no sequence of tokens", name),
                       "its largest microbatch is known");
  if (of == LargestOf::Sequence && scenario.lengths.any())
    throw option_fault("largest", fmt::format("{} states the length of each microbatch (batch.lengths)", name),
                       "leave batch.lengths out to ask for the longest sequence", code::kConflict);
  for (const DeviceType& type : scenario.cluster.types)
    if (memory_limit(scenario, type) <= Bytes(0))
      throw option_fault("largest", fmt::format("the memory of {} is not known", type.name.empty() ? "the devices" : type.name),
                         "state it, as in 'memory: 24 GiB' of the cluster", code::kMissingKey);
}

std::string types_of(const Scenario& scenario) {
  std::string names;
  for (const DeviceType& type : scenario.cluster.types) names += (names.empty() ? "" : ", ") + type.name;
  return names;
}

Ladder ladder_of(const Scenario& scenario, LargestOf of, bool searched) {
  if (of == LargestOf::Sequence) return Ladder::multiples(tokens_step(scenario, searched), kMostTokens);
  const Degrees& degrees = scenario.degrees;
  if (searched && states_samples(scenario)) return Ladder::divisors(samples_of(degrees));
  const int others = degrees.microbatches * degrees.data;
  return Ladder::multiples(1, std::min(kMostSamples, std::numeric_limits<int>::max() / std::max(1, others)));
}

}  // namespace

LargestSource largest_plans(const PlanQuestion& question, const std::atomic<bool>& stop) {
  planner::SearchOptions options = search_options_of(question.request());
  options.candidates = 1;
  options.simulate = {};
  options.stop = &stop;
  return {.name = question.name(),
          .load = [&question](const auto& more) { return question.searched(more); },
          .plan_file = "",
          .search = [&question, options](const Experiment& experiment) { return question.found(experiment, options); }};
}

study::LargestAnswer answer_largest(const LargestRequest& request, const LargestSource& source,
                                    const std::function<void(int value)>& trying) {
  study::LargestAnswer answer;
  answer.of = study::largest_of_named(request.of);
  answer.searched = static_cast<bool>(source.search);
  std::vector<std::vector<std::string>> settings;
  for (const std::string& device : request.devices) settings.push_back({"cluster.device=" + device});
  // What a run costs is not asked, and its price list may lack the device.
  if (!settings.empty() && source.load({}).run)
    for (std::vector<std::string>& setting : settings) setting.emplace_back("run.price=1 USD");
  if (settings.empty()) settings.emplace_back();
  for (const std::vector<std::string>& setting : settings) {
    const Steps steps(source, answer.of, setting, trying);
    const Scenario& base = steps.base();
    check_asked(base, answer.of, source.name);
    answer.ladder = ladder_of(base, answer.of, answer.searched);
    answer.keeps_batch = answer.searched && states_samples(base);
    answer.microbatches = base.degrees.microbatches;
    const bool left_open = answer.searched && answer.of == LargestOf::Micro && is_open(base, "batch.micro");
    answer.stated = left_open ? 0 : answer.of == LargestOf::Micro ? base.degrees.micro : tokens_per_sample(make_workload(base));
    study::LargestFit fit =
        study::find_largest(answer.ladder, answer.stated, !answer.searched, [&](int value) { return steps.at(value); });
    fit.device = types_of(base);
    answer.devices.push_back(std::move(fit));
  }
  if (trying) trying(0);
  return answer;
}

}  // namespace panpipe::app
