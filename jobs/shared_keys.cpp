#include "jobs/shared_keys.hpp"

#include <fmt/format.h>

namespace panpipe::jobs {
namespace {

std::string value_in(const ImportedJob& job, const std::string& key) {
  for (const ImportedValue& known : job.values)
    if (known.key == key) return known.value;
  return "";
}

}  // namespace

void put_context(ImportedJob& job, int degree, const std::string& origin, const std::string& exchange) {
  if (degree == 1) return;
  job.set("parallel.context", degree, origin);
  if (!exchange.empty()) job.set("parallel.context_exchange", exchange, origin);
}

void put_expert(ImportedJob& job, int degree, int tensor, const std::string& origin) {
  if (degree > 1) job.set("parallel.expert", degree, origin);
  if (tensor > 0) job.set("parallel.expert_tensor", tensor, origin);
}

void put_capacity(ImportedJob& job, double factor, bool padded, const std::string& origin) {
  job.set("experts.capacity", fmt::format("{}", factor), origin + (padded ? ", padded" : ""));
  if (padded) return;
  job.set("experts.padded", "false", "rows are dropped, and none are added");
  job.assumptions.push_back(fmt::format("tokens fall evenly on experts, so that {} {} drops none.", origin, factor));
}

std::string cut_before(int layer, int layers) { return layer < layers ? fmt::format("h.{}.attention", layer) : "head"; }

void put_offload(ImportedJob& job, const std::string& part, const std::string& place, const std::string& origin) {
  if (place == "none") return;
  const bool gathers = value_in(job, "parallel.zero") == "3" && value_in(job, "parallel.data") != "1";
  if (place == "cpu" && (part == "optimizer" || gathers)) return job.set("offload." + part, place, origin);
  job.not_modelled.push_back(fmt::format("{}: {}", origin, one_line(place)));
}

}  // namespace panpipe::jobs
