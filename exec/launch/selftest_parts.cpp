#include "exec/launch/selftest_parts.hpp"

#include <CLI/CLI.hpp>

#include "exec/launch/launch.hpp"

namespace panpipe::exec {
namespace {

constexpr double kSecondsOfSilence = 20;  // after which a rank of a case is lost

}  // namespace

void add_contract_options(CLI::App& app, ContractRequest& request) {
  app.add_option("--transport", request.transport, "the transport that is tried")
      ->check(CLI::IsMember({"local", "gloo", "nccl"}));
  app.add_option("--device", request.device, "where tensors lie")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--ranks", request.ranks, "ranks of the world")->check(CLI::Range(2, 20));
}

int launch_contract(const ContractRequest& request) {
  const std::vector<std::string> command{executor_program(), "contract",     "--transport", request.transport,
                                         "--device",         request.device, "--ranks",     std::to_string(request.ranks)};
  if (request.transport == "local") become_program(command);
  return run_ranks(command, request.ranks, kSecondsOfSilence);
}

int launch_copies() { become_program({executor_program(), "copies"}); }

}  // namespace panpipe::exec
