#include "exec/engine/program/execute_contract.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/files/standard_output.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "exec/engine/device.hpp"
#include "exec/engine/fault.hpp"
#include "exec/engine/ranks_here.hpp"
#include "exec/engine/selftest/contract.hpp"

namespace panpipe::exec {
namespace {

constexpr Clock::duration kContractTimeout = std::chrono::seconds(20);

// Gathers every rank's result of a case, in rank order; rank 0 prints them. False where the rule is broken.
bool reported(Transport& transport, const ContractCase& tried, const std::string& broken, double seconds) {
  const auto all = transport.all_gather(broken, kContractTimeout, "what came of a case");
  nlohmann::ordered_json faults = nlohmann::ordered_json::array();
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty()) faults.push_back(fmt::format("rank {}: {}", rank, all[rank]));
  const bool kept = faults.empty();
  if (transport.rank() == 0) {
    const nlohmann::ordered_json line = {
        {"case", tried.name}, {"rule", tried.rule}, {"broken", std::move(faults)}, {"seconds", seconds}};
    print(line.dump() + "\n");
    std::fflush(stdout);
  }
  transport.barrier(kContractTimeout, "the next case");  // which may end the process: results so far are printed
  return kept;
}

// A broken rule is reported, and the next one is tried; a lost rank ends the check.
bool try_contract(Transport& transport, const RankDevice& device) {
  const Fault fault(transport.rank());
  bool kept = true;
  for (const ContractCase& each : contract_cases()) {
    transport.set_action(each.name);
    std::string broken;
    const auto start = Clock::now();
    try {
      fault.before(each.name, 0);
      each.run(transport, device.device());
    } catch (const ContractBroken& found) {
      broken = found.what();
    } catch (const PeerLost&) {
      throw;
    } catch (const std::exception& error) {  // of a library below: the rule names the operation
      throw std::runtime_error(fmt::format("'{}' cannot be tried: {}", each.rule, error.what()));
    }
    kept &= reported(transport, each, broken, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return kept;
}

}  // namespace

int execute_contract(const ContractRequest& request, const std::optional<World>& world) {
  if (request.device == "cuda") require_gpus();
  if (request.transport != "local" && !world)
    throw InputError("panpipe-exec contract: a transport between processes needs a launcher (RANK, WORLD_SIZE)");
  bool kept = false;  // as rank 0 finds it, or this process's only rank
  run_ranks_here(request.transport, request.transport == "local" ? std::nullopt : world, request.ranks, kContractTimeout,
                 "the end of the contract", [&](Transport& transport) {
                   const bool mine = try_contract(transport, RankDevice(request.device, transport.local_rank()));
                   if (transport.rank() == 0 || request.transport != "local") kept = mine;
                 });
  return static_cast<int>(kept ? ExitCode::Done : ExitCode::CheckFailed);
}

}  // namespace panpipe::exec
