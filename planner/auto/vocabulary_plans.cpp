#include "planner/auto/vocabulary_plans.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/scenario/trainer.hpp"
#include "planner/auto/estimated_orders.hpp"
#include "planner/auto/finalists.hpp"
#include "planner/auto/space.hpp"
#include "planner/schedule_choice.hpp"
#include "schedule/vocabulary.hpp"

namespace panpipe::planner {
namespace {

constexpr int kMostChunks = 4;  // stages of a rank in a loop

struct Order {
  std::string family;
  int chunks = 1;  // stages of a rank; given to the family where it has a choice
  bool choice = false;
};

std::vector<Order> orders_of(const Scenario& scenario) {
  std::vector<Order> all;
  const bool open = is_open(scenario, "schedule");
  for (const std::string_view family : vocabulary_families()) {
    if (open ? !may_choose(scenario, family) : family != scenario.schedule.name) continue;
    const bool choice = family == "interleaved-1f1b", chunks_open = open && is_open(scenario, "parallel.virtual_stages");
    const int least = chunks_open ? 2 : scenario.degrees.virtual_stages, most = chunks_open ? kMostChunks : least;
    for (int chunks = choice ? least : 1; chunks <= (choice ? most : 1); ++chunks)
      all.push_back({std::string(family), chunks, choice});
  }
  return all;
}

// Degrees of the space that such plans can have, with all devices in use where they are open.
std::vector<Degrees> degrees_of(const Scenario& scenario, const Space& space, Method method) {
  std::vector<Degrees> all;
  const Degrees& stated = scenario.degrees;
  const auto whole = [](const std::vector<int>& values) { return std::find(values.begin(), values.end(), 1) != values.end(); };
  if (method != Method::Auto) return stated.tensor == 1 && stated.context == 1 ? std::vector{stated} : all;
  if (!whole(space.tensor) || !whole(space.context) || stated.expert > 1) return all;
  for (const int pipeline : space.pipeline)
    for (const int data : space.data)
      for (const int micro : space.micro) {
        const std::int64_t microbatches = microbatches_of(space, micro, data);
        const bool open = space.pipeline_open || space.data_open;
        if (pipeline < 2 || microbatches < 1 || (open && pipeline * data != space.devices)) continue;
        Degrees degrees = stated;
        degrees.tensor = degrees.context = 1;
        degrees.pipeline = pipeline;
        degrees.data = data;
        degrees.micro = micro;
        degrees.microbatches = static_cast<int>(microbatches);
        all.push_back(degrees);
      }
  return all;
}

// Recompute only where it makes room.
void estimate_all(const Experiment& experiment, Degrees degrees, const std::vector<Order>& orders, const Space& space,
                  EstimatedOrders& tried) {
  const std::vector<int>& zeros = space.zero_with_pipeline;
  if (std::none_of(zeros.begin(), zeros.end(), [](int zero) { return zero <= 1; })) return;
  const bool divided = degrees.data > 1 && std::find(zeros.begin(), zeros.end(), 1) != zeros.end();
  degrees.zero = divided ? 1 : 0;
  Scenario scenario = experiment.scenario;
  scenario.degrees = degrees;
  if (is_open(scenario, "schedule")) scenario.schedule = ScheduleRequest();  // else the family is stated, with its options
  scenario.schedule.options["vocabulary"] = "stages";
  const Experiment variant(std::move(scenario));
  for (const Order& order : orders) {
    ScheduleRequest schedule = variant.scenario.schedule;
    schedule.name = order.family;
    if (order.choice) schedule.options["stages_per_rank"] = std::to_string(order.chunks);
    for (const Recompute mode : space.recompute)
      if (tried.estimate(variant, schedule, mode, order.chunks)) break;
  }
}

}  // namespace

bool vocabulary_is_open(const Scenario& scenario) {
  return written(scenario, "schedule", "vocabulary") != nullptr && is_open(scenario, "schedule.vocabulary");
}

void add_vocabulary_plans(const Experiment& experiment, const SearchOptions& options, Answer& answer) {
  const Scenario& scenario = experiment.scenario;
  const auto note = [&](const std::string& text) { answer.notes.push_back("vocabulary cut over the stages: " + text); };
  if (trainer_of(scenario).schedules)
    return note(fmt::format("not searched, because {} does not have it", trainer_of(scenario).full_title()));
  const Space space = space_of(experiment);
  const std::vector<Order> orders = orders_of(scenario);
  EstimatedOrders tried;
  std::string fault;
  for (const Degrees& degrees : degrees_of(scenario, space, options.method)) {
    if (options.stopped()) break;
    try {
      estimate_all(experiment, degrees, orders, space, tried);
    } catch (const InputError& error) {  // the workload cannot be cut so
      fault = error.diagnostics().empty() ? error.what() : error.diagnostics().front().message;
    }
  }
  Answer more = tried.answer(options, "with a cut vocabulary");
  if (more.candidates.empty()) return note(!fault.empty() ? fault : more.reason.empty() ? "no degrees to search" : more.reason);
  note(fmt::format("{} orders were estimated, without a bound; the best is {}", tried.estimated(),
                   more.candidates.front().summary));
  const std::vector<std::string> notes = answer.notes;
  if (answer.candidates.empty()) {
    answer = std::move(more);
    answer.notes = notes;
  } else {
    take_over(std::move(more), scenario, options, answer);
  }
  answer.search.proved_optimal = false;
  answer.search.proved_but_for.clear();
}

}  // namespace panpipe::planner
