#include "jobs/megatron/printed_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/characters.hpp"
#include "base/text/trimmed.hpp"
#include "jobs/megatron/import.hpp"
#include "jobs/megatron/neox_arguments.hpp"

namespace panpipe::jobs {
namespace {

using PrintedPair = std::pair<std::string_view, std::string_view>;

// Flags of the command line that are printed as the opposite.
constexpr PrintedPair kOpposites[] = {{"add_bias_linear", "--disable-bias-linear"},
                                      {"masked_softmax_fusion", "--no-masked-softmax-fusion"},
                                      {"apply_rope_fusion", "--no-rope-fusion"},
                                      {"gradient_accumulation_fusion", "--no-gradient-accumulation-fusion"},
                                      {"add_position_embedding", "--no-position-embedding"},
                                      {"bias_dropout_fusion", "--no-bias-dropout-fusion"}};

// Printed under another name than it is given by.
constexpr PrintedPair kRenamed[] = {{"fp8", "fp8_format"},
                                    {"fp4", "fp4_format"},
                                    {"virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank"}};

// Derived from others, or of parts that a language model has not.
constexpr std::string_view kDerived[] = {
    "data_parallel_size", "params_dtype",       "iteration",          "rank",
    "encoder_seq_length", "encoder_num_layers", "decoder_seq_length", "num_layers_per_virtual_pipeline_stage"};

// Defaults of arguments that predictions ignore: printed in every job, and nobody's choice.
constexpr PrintedPair kDefaults[] = {
    {"mtp_loss_scaling_factor", "0.1"},      {"exp_avg_dtype", "torch.float32"},     {"exp_avg_sq_dtype", "torch.float32"},
    {"main_grads_dtype", "torch.float32"},   {"main_params_dtype", "torch.float32"}, {"num_distributed_optimizer_instances", "1"},
    {"cross_entropy_fusion_impl", "native"}, {"moe_token_drop_policy", "probs"},     {"cuda_graph_scope", "full"},
    {"cuda_graph_warmup_steps", "3"},        {"cpu_offloading_num_layers", "0"},     {"optimizer_offload_fraction", "0.0"},
    {"optimizer_offload_fraction", "1.0"},   {"pp_partition_method", "None"}};

using Printed = std::map<std::string, std::string, std::less<>>;

// Without the rank that a launcher writes in front of a line: "0:   bf16", "[default0]:  bf16".
std::string_view without_rank(std::string_view text) {
  const std::size_t blank = text.find_last_of(" \t");
  if (blank == std::string_view::npos) return text;
  const std::string_view front = trimmed(text.substr(0, blank));
  return front.ends_with(':') || front.ends_with(']') ? text.substr(blank + 1) : text;
}

// Of "  name ..... value"; an empty name: another form.
PrintedLine printed_line(std::string_view text) {
  const std::size_t dots = text.find(" .."), end = text.find(". ", dots == std::string_view::npos ? 0 : dots);
  if (dots == std::string_view::npos || end == std::string_view::npos) return {};
  const std::string_view name = without_rank(trimmed(text.substr(0, dots))), value = trimmed(text.substr(end + 1));
  const auto part_of_name = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  if (name.empty() || value.empty() || !std::all_of(name.begin(), name.end(), part_of_name)) return {};
  return {std::string(name), std::string(value), 0};
}

std::vector<PrintedLine> printed_lines(const std::string& text, int line) {
  std::vector<PrintedLine> lines;
  for (const std::string& each : split_text(text, '\n')) {
    PrintedLine read = printed_line(each);
    read.line = line++;
    if (!read.name.empty()) lines.push_back(std::move(read));
  }
  return lines;
}

std::string_view printed_value(const Printed& all, std::string_view name) {
  const auto found = all.find(name);
  return found == all.end() ? std::string_view() : std::string_view(found->second);
}

// "['p2p', 'a2a']" as p2p, a2a; anything else is one word.
std::vector<std::string> items_of(const PrintedLine& line) {
  const std::string& value = line.value;
  if (!value.starts_with('[') || !value.ends_with(']')) return {value};
  if (line.name == "moe_layer_freq") return {value};  // a pattern, not a list
  std::vector<std::string> items;
  for (const std::string& part : split_text(std::string_view(value).substr(1, value.size() - 2), ',')) {
    std::string_view item = trimmed(part);
    if (item.size() >= 2 && (item[0] == '\'' || item[0] == '"')) item = item.substr(1, item.size() - 2);
    if (!item.empty()) items.emplace_back(item);
  }
  return items;
}

class PrintedWords {
 public:
  explicit PrintedWords(std::vector<PrintedLine> lines) : lines_(std::move(lines)) {
    for (const PrintedLine& printed : lines_) all_[printed.name] = printed.value;
  }

  std::vector<ShellWord> words() {
    for (const PrintedLine& line : lines_) add(line);
    return std::move(words_);
  }

 private:
  bool is_true(std::string_view name) const { return printed_value(all_, name) == "True"; }

  // Values that only count with another argument.
  bool counts(const PrintedLine& line) const {
    if (line.name == "num_query_groups") return is_true("group_query_attention") || !all_.contains("group_query_attention");
    if (line.name == "zero_stage") return is_true("deepspeed");
    if (std::find(std::begin(kDerived), std::end(kDerived), line.name) != std::end(kDerived)) return false;
    return std::find(std::begin(kDefaults), std::end(kDefaults), PrintedPair(line.name, line.value)) == std::end(kDefaults);
  }

  void add(const PrintedLine& line) {
    if (!counts(line)) return;
    if (line.value == "True") return put(line, fmt::format("--{}", line.name));
    if (line.value == "False") return add_false(line);
    if (line.value == "None" || line.value == "[]") return;
    const auto renamed =
        std::find_if(std::begin(kRenamed), std::end(kRenamed), [&](const auto& pair) { return pair.first == line.name; });
    put(line, fmt::format("--{}", renamed == std::end(kRenamed) ? line.name : renamed->second));
    for (std::string& item : items_of(line)) put(line, value_word(line, std::move(item)));
  }

  void add_false(const PrintedLine& line) {
    // Each is switched off by other arguments too, and is no choice then.
    if (line.name == "bias_gelu_fusion" && is_true("add_bias_linear") && !is_true("swiglu"))
      return put(line, "--no-bias-gelu-fusion");
    if (line.name == "bias_swiglu_fusion" && is_true("swiglu")) return put(line, "--no-bias-swiglu-fusion");
    for (const auto& [name, flag] : kOpposites)
      if (line.name == name) return put(line, std::string(flag));
  }

  static std::string value_word(const PrintedLine& line, std::string item) {
    constexpr std::string_view kBackend = "AttnBackend.";
    if (item.starts_with(kBackend)) return item.substr(kBackend.size());
    if (line.name == "zero_stage" && item.ends_with(".0")) return item.substr(0, item.size() - 2);  // its default is a float
    return item;
  }

  void put(const PrintedLine& line, std::string word) {
    words_.push_back({.text = std::move(word), .line = line.line, .column = 1});
  }

  std::vector<PrintedLine> lines_;
  Printed all_;
  std::vector<ShellWord> words_;
};

ImportedJob import_lines(std::vector<PrintedLine> lines, const std::string& name, const JobOptions& options) {
  ImportedJob job = import_megatron(Arguments(PrintedWords(std::move(lines)).words(), name), options);
  if (!job.not_understood.empty())
    job.assumptions.push_back(
        fmt::format("{} printed arguments that no key of a scenario holds do not move a step.", job.not_understood.size()));
  job.not_understood.clear();
  return job;
}

}  // namespace

ImportedJob import_printed_neox(const std::string& text, const std::string& name, int line, const JobOptions& options) {
  ImportedJob job = import_lines(megatron_lines_of_neox(text, line), name, options);
  job.trainer = "GPT-NeoX";
  return job;
}

ImportedJob import_printed_megatron(const std::string& text, const std::string& name, int line, const JobOptions& options) {
  return import_lines(printed_lines(text, line), name, options);
}

}  // namespace panpipe::jobs
