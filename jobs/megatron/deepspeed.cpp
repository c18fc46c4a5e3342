// The configuration of DeepSpeed that a job of Megatron-DeepSpeed names: a file that its script writes or that stands next to it.
#include <nlohmann/json.hpp>

#include "jobs/megatron/job.hpp"
#include "jobs/shell/script_folder.hpp"

namespace panpipe::jobs {
namespace {

std::optional<std::string> config_text(const MegatronJob& m, const ShellWord& name) {
  for (const WrittenFile& file : m.script.written)
    if (file.name == name.text) return file.text;
  if (name.expands) return std::nullopt;
  const std::string& folder = m.options.script.folder;
  const auto file = file_beside(folder, folder, name.text);
  return file ? std::optional(file->text) : std::nullopt;
}

bool is_on(const nlohmann::json& config, const char* section) {
  const auto found = config.find(section);
  return found != config.end() && found->is_object() && found->value("enabled", nlohmann::json()) == true;
}

}  // namespace

void read_deepspeed_config(MegatronJob& m) {
  const ShellWord* name = m.arguments.word("--deepspeed-config");
  if (name == nullptr) return;
  const auto text = config_text(m, *name);
  if (!text) return;
  const nlohmann::json config = nlohmann::json::parse(*text, nullptr, false);
  if (!config.is_object()) {
    m.job.assumptions.push_back(one_line(name->text) + " is no JSON that is known here: the arguments alone count.");
    return;
  }
  const auto zero = config.find("zero_optimization");
  if (zero != config.end() && zero->is_object() && zero->contains("stage") && (*zero)["stage"].is_number_integer()) {
    const auto stage = (*zero)["stage"].get<long long>();
    if (stage >= 0 && stage <= 3) m.deepspeed_zero = static_cast<int>(stage);
  }
  if (is_on(config, "bf16") || is_on(config, "bfloat16")) m.deepspeed_precision = "bf16";
  if (is_on(config, "fp16")) m.deepspeed_precision = "fp16";
}

}  // namespace panpipe::jobs
