#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "jobs/bounds.hpp"
#include "jobs/megatron_job.hpp"

namespace panpipe::jobs {
namespace {

void read_recomputed_modules(ImportedJob& job, const std::vector<std::string>& modules) {
  std::vector<std::string> operators;
  const auto add = [&](const char* name) {
    if (std::find(operators.begin(), operators.end(), name) == operators.end()) operators.emplace_back(name);
  };
  for (const std::string& module : modules) {
    if (module == "core_attn")
      add("attention");
    else if (module == "layernorm")
      add("norms");
    else if (module == "moe_act")
      add("elementwise");
    else if (module == "mlp" || module == "moe" || module == "shared_experts")
      add("elementwise"), add("products");
    else
      job.not_modelled.push_back("--recompute-modules " + module);
  }
  if (!operators.empty())
    job.set("recompute", fmt::format("{{operators: [{}]}}", fmt::join(operators, ", ")), "--recompute-modules");
}

}  // namespace

void read_megatron_recompute(MegatronJob& m) {
  const auto granularity = m.arguments.text("--recompute-granularity");
  const auto method = m.arguments.text("--recompute-method");
  const int layers = m.arguments.integer("--recompute-num-layers", 1, kMostLayers).value_or(1);
  const std::vector<std::string> modules = m.arguments.list("--recompute-modules");
  if (m.arguments.flag("--recompute-activations") || granularity == "selective") {
    if (modules.empty() || (modules.size() == 1 && modules[0] == "core_attn"))
      return m.job.set("recompute", "selective", granularity ? "--recompute-granularity selective" : "--recompute-activations");
    return read_recomputed_modules(m.job, modules);
  }
  if (!granularity) return;
  if (*granularity != "full")
    m.arguments.refuse("--recompute-granularity", fmt::format("is '{}'; it is full or selective", *granularity));
  if (method == "block")
    m.job.set("recompute", fmt::format("{{first: {}}}", layers), "--recompute-method block, --recompute-num-layers");
  else if (layers > 1)
    m.job.set("recompute", fmt::format("{{chunk: {}}}", layers), "--recompute-method uniform, --recompute-num-layers");
  else
    m.job.set("recompute", "full", "--recompute-granularity full");
}

}  // namespace panpipe::jobs
