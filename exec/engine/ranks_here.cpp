#include "exec/engine/ranks_here.hpp"

#include "base/version.hpp"
#include "exec/engine/transport/on_threads.hpp"

namespace panpipe::exec {

std::unique_ptr<Transport> make_process_transport(const std::string& name, const World& world, Clock::duration deadline) {
  const ProcessOptions options{world, deadline, kVersion, true};
  return name == "nccl" ? make_nccl_transport(options) : make_gloo_transport(options);
}

void run_ranks_here(const std::string& transport, const std::optional<World>& world, int ranks, Clock::duration deadline,
                    const std::string& end, const std::function<void(Transport&)>& body) {
  if (!world) return on_threads(make_local_transports(ranks), body);
  const std::unique_ptr<Transport> own = make_process_transport(transport, *world, deadline);
  try {
    body(*own);
  } catch (const std::exception& error) {
    own->abort(error.what());
    throw;
  }
  own->leave(deadline, end);
}

}  // namespace panpipe::exec
