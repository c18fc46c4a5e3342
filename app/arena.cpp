#include "app/arena.hpp"

#include <utility>

#include "sim/simulate.hpp"

namespace panpipe::app {

study::Arena judge(ArenaRequest request) {
  const sim::Options options{.backend = sim::backend_named(request.backend)};
  const int threads = request.threads;
  study::ArenaRequest made = study::request_of(std::move(request));
  made.threads = threads;
  made.simulate = [options](const TaskGraph& graph, const Cluster& cluster) { return sim::simulate(graph, cluster, options); };
  return study::judge(made);
}

}  // namespace panpipe::app
