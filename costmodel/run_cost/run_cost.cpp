#include "costmodel/run_cost/run_cost.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/index.hpp"
#include "base/text/run_quantity_text.hpp"
#include "costmodel/run_cost/goodput.hpp"

namespace panpipe {
namespace {

constexpr double kHour = 3600;
constexpr double kJoulesPerKwh = 3.6e6;
// Below this share of the wall time a run does not get on: the formula stands no more for anything that people would do.
constexpr double kLeastGoodput = 0.01;

using Counted = RunRequest::Counted;

// How much of what is counted a step trains.
double in_a_step(Counted counted, const RunStep& step) {
  switch (counted) {
    case Counted::Tokens:
      return step.tokens;
    case Counted::Samples:
      return step.samples;
    case Counted::Steps:
      break;
  }
  return 1;
}

double total(const std::vector<double>& counts) { return std::accumulate(counts.begin(), counts.end(), 0.0); }

class Calculation {
 public:
  Calculation(const RunRequest& request, const RunMachine& machine, const RunStep& step)
      : request_(request), machine_(machine), step_(step) {}

  RunAnswer answer() {
    count_steps();
    if (ok()) find_time();
    if (!ok()) return {{}, fault_};
    add_money();
    add_energy();
    return {cost_, {}};
  }

 private:
  bool ok() const { return fault_.message.empty(); }
  void fail(std::string key, std::string message, std::string help) {
    fault_ = {std::move(key), std::move(message), std::move(help)};
  }

  void count_steps() {
    cost_.counted = request_.counted;
    cost_.amount = request_.amount;
    const double of_step = in_a_step(request_.counted, step_);
    if (!(of_step > 0))
      return fail(std::string(name_of(request_.counted)), "this model reads no tokens", "count samples or steps");
    cost_.steps = std::ceil(request_.amount / of_step - 1e-9);  // a whole number may come out a little above itself
    if (!(step_.time > Duration(0))) fail("", "a run needs a step that takes time", "the predicted step takes none");
  }

  void find_time() {
    const Duration training = step_.time * cost_.steps;
    Duration wall = training;
    if (request_.checkpoint) wall = with_checkpoints(training);
    if (!ok()) return;
    cost_.time_s = wall.base();
    cost_.gpus = total(machine_.gpus);
    cost_.gpu_hours = cost_.gpus * wall.base() / kHour;
    if (request_.checkpoint) cost_.goodput = training / wall;
  }

  Duration checkpoint_time() {
    const RunRequest::Checkpoint& asked = *request_.checkpoint;
    if (asked.time) return *asked.time;
    const double bytes = asked.size ? static_cast<double>(asked.size->base()) : step_.checkpoint_bytes;
    if (!(bytes > 0))
      fail("checkpoint.bandwidth", "the size of a checkpoint is not known: this workload does not say its parameters",
           "state checkpoint.size, or checkpoint.time");
    return Duration(bytes / asked.bandwidth->base());
  }

  Duration with_checkpoints(Duration training) {
    const Duration checkpoint = checkpoint_time();
    if (!ok()) return training;
    const RunRequest::Checkpoint& asked = *request_.checkpoint;
    if (asked.interval && *asked.interval < step_.time) {
      fail("checkpoint.interval",
           fmt::format("checkpoints every {} are closer than steps of {}", to_text(*asked.interval), to_text(step_.time)),
           "a checkpoint is written between two steps: state a longer interval, or leave it out for the best");
      return training;
    }
    cost_.checkpoint_s = checkpoint.base();
    if (!request_.failures) {
      cost_.checkpoint_interval_s = asked.interval->base();
      return time_with_checkpoints(training, {*asked.interval, checkpoint});
    }
    const RunRequest::Failures& failures = *request_.failures;
    const bool by_node = failures.part == RunRequest::FailingPart::Node;
    const Duration mtbf = mtbf_of_all(failures.mtbf, by_node ? machine_.nodes : total(machine_.gpus));
    const Duration interval = asked.interval ? *asked.interval : std::max(step_.time, best_checkpoint_interval(checkpoint, mtbf));
    cost_.mtbf_s = mtbf.base();
    cost_.checkpoint_interval_s = interval.base();
    const Duration wall = time_with_failures(training, {interval, checkpoint}, failures.restart, mtbf);
    if (!(training >= wall * kLeastGoodput))
      fail("failures",
           fmt::format("the run does not get on: something fails every {}, a checkpoint of {} is written every {}, and a "
                       "restart takes {}",
                       long_time_text(mtbf.base()), long_time_text(checkpoint.base()), long_time_text(interval.base()),
                       long_time_text(failures.restart.base())),
           "shorten the interval, the checkpoint or the restart, or use fewer GPUs");
    return wall;
  }

  void add_money() {
    if (request_.prices.empty()) return;
    cost_.cost =
        std::inner_product(machine_.gpus.begin(), machine_.gpus.end(), request_.prices.begin(), 0.0) * cost_.time_s / kHour;
    cost_.currency = request_.currency;
    cost_.price_origin = request_.price_origin;
  }

  void add_energy() {
    if (!request_.power) return;
    const RunRequest::PowerUse& power = *request_.power;
    double watts = power.node.base() * machine_.nodes;
    std::vector<std::string> each;
    for (std::size_t type = 0; type < machine_.gpus.size(); ++type) {
      const Power drawn = power.gpu[type] * power.share;
      watts += machine_.gpus[type] * drawn.base();
      if (const std::string text = exact_text(drawn); std::find(each.begin(), each.end(), text) == each.end())
        each.push_back(text);
    }
    cost_.power_origin =
        fmt::format("GPUs at {}{}, PUE {}", fmt::join(each, " and "),
                    power.node > Power(0) ? fmt::format(", {} a node beside them", exact_text(power.node)) : "", power.pue);
    cost_.energy_kwh = watts * power.pue * cost_.time_s / kJoulesPerKwh;
    if (request_.carbon) cost_.carbon_kg = *cost_.energy_kwh * *request_.carbon / 1000;
  }

  const RunRequest& request_;
  const RunMachine& machine_;
  const RunStep& step_;
  RunCost cost_;
  RunFault fault_;
};

}  // namespace

std::string_view name_of(RunRequest::Counted counted) {
  constexpr std::string_view kNames[] = {"tokens", "samples", "steps"};
  return kNames[at(counted)];
}

RunAnswer run_cost(const RunRequest& request, const RunMachine& machine, const RunStep& step) {
  return Calculation(request, machine, step).answer();
}

}  // namespace panpipe
