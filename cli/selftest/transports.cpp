// The contract of transports, over those of this machine.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "cli/selftest/steps.hpp"
#include "exec/launch/selftest_parts.hpp"

namespace panpipe::cli {
namespace {

constexpr double kMostSecondsOfContract = 180;  // a lost rank is noticed after 20 s

struct Asked {
  exec::ContractRequest request;
  std::string ranks;  // as text
};

std::vector<Asked> asked_of(const Trial& trial) {
  std::vector<Asked> all;
  const int most = trial.worlds().back();
  if (trial.on_gpus() && trial.gpus() > 1) all.push_back({{"nccl", "cuda", most}, trial.ranks_text(most)});
  if (trial.on_gpus()) all.push_back({{"local", "cuda", most}, trial.ranks_text(most)});
  if (!trial.on_gpus()) all.push_back({{"local", "cpu", most}, fmt::format("{} threads", most)});
  const int processes = trial.on_gpus() ? 2 : most;
  if (trial.machine.ports_problem.empty()) all.push_back({{"gloo", "cpu", processes}, fmt::format("{} processes", processes)});
  return all;
}

}  // namespace

std::vector<Trouble> troubles_of_contract(const std::string& transport, const std::string& ranks, const ChildEnd& end,
                                          int& rules) {
  std::vector<Trouble> troubles;
  rules = 0;
  std::istringstream lines(end.out);
  for (std::string line; std::getline(lines, line);) {
    const auto document = nlohmann::json::parse(line, nullptr, false);
    if (!document.is_object() || !document.contains("broken") || !document.contains("rule")) continue;
    if (document["broken"].empty()) {
      ++rules;
      continue;
    }
    troubles.push_back(
        {true,
         fmt::format("{} over {} breaks the rule that {}: {}", transport, ranks, document["rule"].get<std::string>(),
                     fmt::join(document["broken"].get<std::vector<std::string>>(), "; ")),
         remedy_for_transport(transport)});
  }
  if (!end.done() && troubles.empty())
    troubles.push_back({true, fmt::format("{} over {} failed after {} kept rules: {}", transport, ranks, rules, last_words(end)),
                        remedy_after(end, transport)});
  return troubles;
}

StepReport try_transports(Trial& trial) {
  StepReport report;
  std::vector<std::string> kept;
  for (const Asked& asked : asked_of(trial)) {
    const ChildEnd end = trial.run([&] { return exec::launch_contract(asked.request); }, kMostSecondsOfContract);
    int rules = 0;
    const std::vector<Trouble> troubles = troubles_of_contract(asked.request.transport, asked.ranks, end, rules);
    kept.push_back(fmt::format("{} over {} {}", asked.request.transport, asked.ranks,
                               troubles.empty() ? fmt::format("keeps {} rules", rules) : "fails"));
    report.figures["tried"].push_back({{"transport", asked.request.transport},
                                       {"device", asked.request.device},
                                       {"ranks", asked.request.ranks},
                                       {"rules_kept", rules},
                                       {"right", troubles.empty()}});
    report.troubles.insert(report.troubles.end(), troubles.begin(), troubles.end());
  }
  if (trial.on_gpus() && trial.gpus() == 1) kept.emplace_back("nccl left out: it takes two GPUs");
  report.text = fmt::format("{}", fmt::join(kept, "; "));
  return report;
}

}  // namespace panpipe::cli
