#include "costmodel/cost/shared_cores.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace panpipe {
namespace {

// A whole number of the profile's provenance; 0 where it states none.
int stated(const Profile& profile, const char* key) {
  const auto found = profile.measured.find(key);
  if (found == profile.measured.end()) return 0;
  int value = 0;
  const char* end = found->second.data() + found->second.size();
  const auto [stop, fault] = std::from_chars(found->second.data(), end, value);
  return fault == std::errc() && stop == end ? std::max(0, value) : 0;
}

int devices_of_a_rank(const Degrees& degrees) { return std::max(1, degrees.devices_of_rank()); }

// Mean of what ranks at work take while a pipeline of p ranks fills, works and drains: with M microbatches in turn, 1, 2, ...
// up to the lesser of the two are at work, then all of them, then fewer again. A slot lasts as long as its ranks take for it.
double mean_slowdown(const SharedCores& host, int p, double microbatches, double per_rank) {
  const double most = std::min<double>(p, microbatches), full = std::abs(p - microbatches) + 1;
  double slots = full, time = full * slowdown_of(host, most * per_rank);
  for (int busy = 1; busy < most; ++busy) {
    slots += 2;
    time += 2 * slowdown_of(host, busy * per_rank);
  }
  return time / slots;
}

// On a core for each rank.
double alone_slowdown(const SharedCores& host, const Degrees& degrees) {
  const double microbatches = std::max(1.0, static_cast<double>(degrees.microbatches) * degrees.virtual_stages);
  return mean_slowdown(host, degrees.pipeline, microbatches, host.ranks / std::max(1, degrees.pipeline));
}

}  // namespace

SharedCores shared_cores(const Scenario& scenario, const Degrees& degrees) {
  SharedCores host;
  const Profile* profile = scenario.profile.get();
  if (profile == nullptr || profile->units.empty() || degrees.pipeline < 1) return host;
  if (const auto device = profile->measured.find("device"); device != profile->measured.end() && device->second != "cpu")
    return host;
  host.cores = stated(*profile, "cores");
  host.threads = std::max(1, stated(*profile, "threads"));
  host.profiled_ranks = std::max(1, stated(*profile, "ranks"));
  const double all = static_cast<double>(degrees.pipeline) * devices_of_a_rank(degrees);
  const int nodes = std::max(1, scenario.cluster.nodes);
  host.ranks = std::min(all, std::ceil(static_cast<double>(scenario.cluster.size()) / nodes));
  return host;
}

double slowdown_of(const SharedCores& host, double busy) {
  return host.cores > 0 ? std::max(1.0, busy * host.threads / host.cores) : 1.0;
}

double pass_slowdown(const Scenario& scenario, const Degrees& degrees) {
  const SharedCores host = shared_cores(scenario, degrees);
  return alone_slowdown(host, degrees) / slowdown_of(host, host.profiled_ranks);
}

double optimizer_slowdown(const Scenario& scenario, const Degrees& degrees) {
  const SharedCores host = shared_cores(scenario, degrees);
  return slowdown_of(host, std::min<double>(host.ranks, devices_of_a_rank(degrees))) / slowdown_of(host, host.profiled_ranks);
}

std::string reported_cores(const Scenario& scenario, int pipeline) {
  Degrees degrees = scenario.degrees;
  degrees.pipeline = pipeline;
  const SharedCores host = shared_cores(scenario, degrees);
  if (!host.crowded()) return "";
  return fmt::format(
      "{:g} ranks{} share a host of {} core{}, as the profile states it: each pass takes {:.2f} times as long as if every "
      "rank had cores of its own. How long messages wait for a core is not predicted: a measured step is longer. For hosts with "
      "more cores change "
      "`cores` in {}{}",
      host.ranks, host.threads > 1 ? fmt::format(" of {} threads", host.threads) : std::string(), host.cores,
      host.cores == 1 ? "" : "s", alone_slowdown(host, degrees),
      scenario.profile->file.empty() ? "the profile" : scenario.profile->file,
      host.profiled_ranks * host.threads > host.cores
          ? fmt::format("; it was made with {} ranks that took turns: profile with --ranks {}", host.profiled_ranks,
                        std::max(1, host.cores / host.threads))
          : std::string());
}

}  // namespace panpipe
