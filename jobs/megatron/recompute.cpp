#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/input/scalar_text.hpp"
#include "jobs/bounds.hpp"
#include "jobs/megatron/job.hpp"

namespace panpipe::jobs {
namespace {

// The names that Megatron-LM had for it before 2022, and its fork with DeepSpeed has.
bool read_older_names(MegatronJob& m) {
  Arguments& a = m.arguments;
  const auto method = a.text("--activations-checkpoint-method");
  const int layers = a.integer("--activations-checkpoint-num-layers", 1, kMostLayers).value_or(1);
  bool all = false;
  for (const char* flag : {"--checkpoint-activations", "--deepspeed-activation-checkpointing"}) all |= a.flag(flag);
  if (!method && !all) return false;
  if (method == "block")
    m.job.set("recompute", fmt::format("{{first: {}}}", layers), "--activations-checkpoint-method block");
  else if (layers > 1)
    m.job.set("recompute", fmt::format("{{chunk: {}}}", layers), "--activations-checkpoint-num-layers");
  else
    m.job.set("recompute", "full", method ? "--activations-checkpoint-method" : "--checkpoint-activations");
  return true;
}

}  // namespace

void read_megatron_recompute(MegatronJob& m) {
  const auto granularity = m.arguments.text("--recompute-granularity");
  const auto method = m.arguments.text("--recompute-method");
  const int layers = m.arguments.integer("--recompute-num-layers", 1, kMostLayers).value_or(1);
  std::vector<std::string> modules = m.arguments.list("--recompute-modules");
  if (m.arguments.flag("--recompute-activations") || granularity == "selective") {
    if (modules.empty() || (modules.size() == 1 && modules[0] == "core_attn"))
      return m.job.set("recompute", "selective", granularity ? "--recompute-granularity selective" : "--recompute-activations");
    for (std::string& module : modules) module = scalar_text(module);
    return m.job.set("recompute", fmt::format("{{modules: [{}]}}", fmt::join(modules, ", ")), "--recompute-modules");
  }
  if (read_older_names(m) || !granularity) return;
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
