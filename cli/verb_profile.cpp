// panpipe profile: what this machine takes for the workload's units and for messages between ranks.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/verbs.hpp"
#include "exec/launch/profile_options.hpp"

namespace panpipe::cli {

void add_profile_verb(CLI::App& sub, std::function<int()>& run) {
  auto request = std::make_shared<exec::ProfileRequest>();
  exec::add_profile_options(sub, *request);
  run = [request] { return exec::launch_profile(*request); };
}

}  // namespace panpipe::cli
