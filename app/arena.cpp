#include "app/arena.hpp"

#include <utility>

#include "sim/simulate.hpp"

namespace panpipe::app {

arena::Arena judge(ArenaRequest request) {
  const sim::Options options{.backend = sim::backend_named(request.backend)};
  const int threads = request.threads;
  arena::ArenaRequest made = arena::request_of(std::move(request));
  made.threads = threads;
  made.simulate = [options](const TaskGraph& graph, const Cluster& cluster) { return sim::simulate(graph, cluster, options); };
  return arena::judge(made);
}

}  // namespace panpipe::app
