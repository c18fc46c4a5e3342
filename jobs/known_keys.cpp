#include "jobs/known_keys.hpp"

#include <fmt/format.h>

#include "costmodel/scenario/scenario.hpp"

namespace panpipe::jobs {
namespace {

template <class T>
concept HasContext = requires(T parallel) {
  parallel.context;
};
template <class T>
concept HasExpert = requires(T parallel) {
  parallel.expert;
};
template <class T>
concept HasFp8 = requires {
  T::Fp8;
};
template <class T>
concept HasExpertLoad = requires(T scenario) {
  scenario.expert_load;
};
template <class T>
concept HasOffload = requires(T scenario) {
  scenario.offload;
};

std::string value_in(const ImportedJob& job, const std::string& key) {
  for (const ImportedValue& known : job.values)
    if (known.key == key) return known.value;
  return "";
}

}  // namespace

bool scenario_has_context() { return HasContext<Parallel>; }
bool scenario_has_expert() { return HasExpert<Parallel>; }
bool scenario_has_fp8() { return HasFp8<Precision>; }
bool scenario_has_offload() { return HasOffload<Scenario>; }

std::string no_context(int degree) { return fmt::format("is {}; predictions do not know context parallelism", degree); }
std::string no_expert(int degree) { return fmt::format("is {}; predictions do not know expert parallelism", degree); }

bool put_context(ImportedJob& job, int degree, const std::string& origin, const std::string& exchange) {
  if (degree > 1 && !scenario_has_context()) return false;
  if (degree > 1) job.set("parallel.context", degree, origin);
  if (degree > 1 && !exchange.empty()) job.set("parallel.context_exchange", exchange, origin);
  return true;
}

bool put_expert(ImportedJob& job, int degree, int tensor, const std::string& origin) {
  if (degree > 1 && !scenario_has_expert()) return false;
  if (degree > 1) job.set("parallel.expert", degree, origin);
  if (tensor > 0 && scenario_has_expert())
    job.set("parallel.expert_tensor", tensor, origin);
  else if (tensor > 0)
    job.not_modelled.push_back(fmt::format("{}: experts cut over {} ranks", origin, tensor));
  return true;
}

void put_capacity(ImportedJob& job, double factor, bool padded, const std::string& origin) {
  if (padded && HasExpertLoad<Scenario>)
    job.set("experts.capacity", fmt::format("{}", factor), origin + ", padded");
  else if (padded)
    job.not_modelled.push_back(fmt::format("{} {}, padded", origin, factor));
  else
    job.assumptions.push_back(fmt::format("tokens fall evenly on experts, so that {} {} drops none.", origin, factor));
}

void put_fp8(ImportedJob& job, const std::string& format, const std::string& origin) {
  if (scenario_has_fp8()) return job.set("precision", format, origin);
  job.set("precision", "bf16", origin);
  job.not_modelled.push_back(fmt::format("{}: products are predicted in bf16", origin));
}

void put_offload(ImportedJob& job, const std::string& part, const std::string& place, const std::string& origin) {
  if (place == "none") return;
  const bool gathers = value_in(job, "parallel.zero") == "3" && value_in(job, "parallel.data") != "1";
  if (scenario_has_offload() && place == "cpu" && (part == "optimizer" || gathers))
    return job.set("offload." + part, place, origin);
  job.not_modelled.push_back(fmt::format("{}: {}", origin, one_line(place)));
}

}  // namespace panpipe::jobs
