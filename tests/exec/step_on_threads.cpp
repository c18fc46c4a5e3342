#include "tests/exec/step_on_threads.hpp"

#include <ATen/Parallel.h>

#include "exec/engine/mesh.hpp"
#include "exec/engine/transport/on_threads.hpp"

namespace panpipe::exec {

void compute_on_one_core() {
  at::get_num_threads();  // makes the thread's own copy of the number
  at::set_num_threads(1);
}

std::vector<RankStep> step_on_threads(const OperatorGraph& graph, const Plan& plan, const StageLayout& layout,
                                      const DataSource& data, WorkerOptions options) {
  options.exchange = exchange_of(plan.schedule, {});
  std::vector<RankStep> ranks(static_cast<std::size_t>(plan.device_count()));
  for (int rank = 0; rank < plan.device_count(); ++rank)
    ranks[static_cast<std::size_t>(rank)].parameters =
        std::make_unique<SeededParameters>(graph, layout, stages_of(plan, place_of(plan, rank).position), options.seed, false,
                                           at::kCPU, device_of_position(plan, rank));
  on_threads(make_local_transports(plan.device_count()), [&](Transport& transport) {
    RankStep& own = ranks[static_cast<std::size_t>(transport.rank())];
    RankSite site{graph, plan, layout, transport};
    compute_on_one_core();
    Worker worker(site, *own.parameters, data, options);
    own.result = worker.step(0);
  });
  return ranks;
}

}  // namespace panpipe::exec
