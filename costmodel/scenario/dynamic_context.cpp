#include "costmodel/scenario/dynamic_context.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/workload/assign_contexts.hpp"

namespace panpipe {
namespace {

int degree_of(const Scenario& scenario, int length) {
  const std::vector<SequenceShape>& shapes = scenario.lengths.shapes;
  return context_degree(shapes[at(length)].tokens(), shapes.front().tokens(), scenario.degrees.context);
}

// Calls visit(slot, length) for each group of ranks.
template <class Visit>
void for_each_group(const Scenario& scenario, Visit visit) {
  const int slots = scenario.degrees.microbatches, ranks = scenario.degrees.replicas();
  for (int slot = 0; slot < slots; ++slot)
    for (int rank = 0; rank < ranks;) {
      const int length = scenario.lengths.of[at(rank) * at(slots) + at(slot)];
      if (length >= 0) visit(slot, length);
      rank += length >= 0 ? degree_of(scenario, length) : 1;
    }
}

}  // namespace

bool has_dynamic_context(const Scenario& scenario) {
  const Degrees& degrees = scenario.degrees;
  return scenario.lengths.any() && degrees.context > 1 &&
         scenario.lengths.of.size() == at(degrees.microbatches) * at(degrees.replicas());
}

Degrees degrees_of_length(const Scenario& scenario, const Degrees& degrees, int length) {
  Degrees of = degrees;
  if (!has_dynamic_context(scenario)) return of;
  of.context = degree_of(scenario, length);
  of.data = degrees.replicas() / of.context;
  return of;
}

std::vector<int> listed_sequences(const Scenario& scenario) {
  if (!has_dynamic_context(scenario)) return scenario.lengths.of;
  std::vector<int> lengths;
  for_each_group(scenario, [&](int, int length) { lengths.push_back(length); });
  return lengths;
}

std::vector<int> slowest_lengths(const Scenario& scenario) {
  const std::vector<SequenceShape>& shapes = scenario.lengths.shapes;
  const SequenceWork work = sequence_work(scenario, shapes.front().tokens());
  std::vector<int> slowest(at(scenario.degrees.microbatches), 0);
  std::vector<double> most(slowest.size(), -1);
  for_each_group(scenario, [&](int slot, int length) {
    const double of_rank = work.of(shapes[at(length)]) / degree_of(scenario, length);
    if (of_rank <= most[at(slot)]) return;
    most[at(slot)] = of_rank;
    slowest[at(slot)] = length;
  });
  return slowest;
}

// A line and a square.
SequenceWork sequence_work(const Scenario& scenario, int tokens) {
  const auto work = [&](int length) {
    WorkloadRequest request = scenario.workload;
    request.sequence = length;
    return make_workload(request, {.degrees = {}, .precision = scenario.precision}).model_flops.base();
  };
  try {
    const double half = std::max(1, tokens / 2), part = work(static_cast<int>(half)), whole = work(static_cast<int>(2 * half));
    const double per_square = std::max(0.0, (whole - 2 * part) / (2 * half * half));
    return {part / half - per_square * half, per_square};
  } catch (const InputError&) {
    return {};  // the model is refused later, with its own words
  }
}

}  // namespace panpipe
