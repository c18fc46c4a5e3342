#include "costmodel/plan/step_work.hpp"

#include <map>

#include "costmodel/scenario/dynamic_context.hpp"

namespace panpipe {

StepWork step_work(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs) {
  std::map<int, int> microbatches;  // by length
  const bool dynamic = has_dynamic_context(scenario);
  if (dynamic)
    for (const int length : listed_sequences(scenario)) ++microbatches[length];
  for (int replica = 0; replica < plan.replicas() && !dynamic; replica += plan.context)
    for (int m = 0; m < plan.microbatches; ++m) ++microbatches[plan.length_of(replica, m)];
  StepWork work;
  for (const auto& [length, count] : microbatches) {
    const double sequences = static_cast<double>(plan.micro) * count;
    work.samples += sequences;
    work.tokens += costs.tokens_per_sample(length) * sequences;
    work.model_flops += costs.model_flops(length) * sequences;
  }
  return work;
}

}  // namespace panpipe
