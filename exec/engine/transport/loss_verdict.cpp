#include "exec/engine/transport/loss_verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exec/engine/transport/wait_limit.hpp"

namespace panpipe::exec {
namespace {

using nlohmann::json;
using Steady = std::chrono::steady_clock;

struct Attendance {
  int members = 0, present = 0;
  std::string sentence;
  Steady::duration time = Steady::duration::max();  // since the last of them came
};

// The operation that all whom it takes have been in for longest, where that is too long; else empty.
std::string hanging(const std::map<int, RankState>& ranks, Steady::time_point now, Steady::duration timeout) {
  std::map<std::string, Attendance> attendance;
  for (const auto& [rank, one] : ranks)
    for (const Standing& operation : one.operations) {
      Attendance& all = attendance[operation.id];
      all.members = operation.members;
      ++all.present;
      if (!operation.sentence.empty()) all.sentence = operation.sentence;
      all.time = std::min(all.time, operation.time + (now - one.received));
    }
  const Attendance* longest = nullptr;
  for (const auto& [id, one] : attendance)
    if (one.present == one.members && one.time > timeout && (!longest || one.time > longest->time)) longest = &one;
  if (!longest) return "";
  return fmt::format("{} has stood still between the GPUs for {:.2g} s", longest->sentence, in_seconds(longest->time));
}

}  // namespace

json report_of(int rank, const RankState& state) {
  json operations = json::array();
  for (const Standing& one : state.operations)
    operations.push_back({one.id, one.members, one.sentence, in_milliseconds(one.time)});
  return {{"rank", rank},
          {"waits", state.waits},
          {"quiet", in_milliseconds(state.quiet)},
          {"at", state.at},
          {"operations", std::move(operations)}};
}

void take_report(const json& report, RankState& state) {
  state.quiet = std::chrono::milliseconds(report.value("quiet", 0));
  state.waits = report.value("waits", false);
  state.at = report.value("at", "");
  state.operations.clear();
  for (const json& operation : report.value("operations", json::array()))
    state.operations.push_back(
        {operation.at(0), operation.at(1), operation.at(2), std::chrono::milliseconds(operation.at(3).get<std::int64_t>())});
}

Verdict judge(const std::map<int, RankState>& ranks, Steady::time_point now, Steady::duration timeout) {
  Verdict verdict{hanging(ranks, now, timeout), Steady::duration::max(), ""};
  for (const auto& [rank, one] : ranks) {
    if (one.left) continue;
    const Steady::duration unheard = now - one.received;
    verdict.quiet = std::min(verdict.quiet, one.quiet + unheard);
    verdict.table +=
        fmt::format("{}rank {} {}: {}", verdict.table.empty() ? "" : "; ", rank, one.waits ? "waits" : "is at", one.at);
    if (!verdict.loss.empty()) continue;
    if (rank != 0 && unheard > timeout)
      verdict.loss = fmt::format(
          "rank {} is lost: nothing heard from it for {:.2g} s (stopped, or its host cannot be reached); it was last seen at: {}",
          rank, in_seconds(unheard), one.at);
    else if (!one.waits && one.quiet > timeout)
      verdict.loss = fmt::format("rank {} is stuck: no progress for {:.2g} s at: {}", rank, in_seconds(one.quiet), one.at);
  }
  return verdict;
}

}  // namespace panpipe::exec
