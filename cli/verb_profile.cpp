// panpipe profile: what this machine takes for the workload's units and for messages between ranks.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/option_checks.hpp"
#include "cli/verbs.hpp"
#include "exec/launch/profile_options.hpp"

namespace panpipe::cli {

void add_profile_verb(CLI::App& sub, std::function<int()>& run) {
  auto request = std::make_shared<exec::ProfileRequest>();
  exec::add_profile_options(sub, *request);
  sub.get_option("--threads")->check(at_least_one);
  run = [request] {
    require_readable_again(request->scenario);
    return exec::launch_profile(*request);
  };
}

}  // namespace panpipe::cli
