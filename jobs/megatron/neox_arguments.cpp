// Names and meanings: megatron/neox_arguments/neox_args.py, megatron/model/transformer.py of EleutherAI/gpt-neox.
#include "jobs/megatron/neox_arguments.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "base/text/characters.hpp"

namespace panpipe::jobs {
namespace {

constexpr std::pair<std::string_view, std::string_view> kSame[] = {
    {"num_layers", "num_layers"},
    {"hidden_size", "hidden_size"},
    {"num_attention_heads", "num_attention_heads"},
    {"num_kv_heads", "num_query_groups"},
    {"seq_length", "seq_length"},
    {"max_position_embeddings", "max_position_embeddings"},
    {"train_batch_size", "global_batch_size"},
    {"train_micro_batch_size_per_gpu", "micro_batch_size"},
    {"global_num_gpus", "world_size"},
    {"zero_stage", "zero_stage"},
    {"model_parallel_size", "tensor_model_parallel_size"},
    {"sequence_parallel", "sequence_parallel"},
    {"checkpoint_activations", "checkpoint_activations"},
    {"no_weight_tying", "untie_embeddings_and_output_weights"},
    {"hidden_dropout", "hidden_dropout"},
    {"attention_dropout", "attention_dropout"},
    {"moe_top_k", "moe_router_topk"},
    {"make_vocab_size_divisible_by", "make_vocab_size_divisible_by"},
    {"padded_vocab_size", "padded_vocab_size"},
    {"rotary_emb_base", "rotary_base"}};

constexpr std::string_view kGated[] = {"swiglu", "geglu", "reglu", "bilinear", "glu"};

using NeoxValues = std::map<std::string, std::string, std::less<>>;

// Name and value of "  name ..... value.......default"; an empty name: another form.
std::pair<std::string_view, std::string_view> neox_line(std::string_view text) {
  const std::size_t from = text.find_first_not_of(' ');
  if (from == std::string_view::npos) return {};
  text = text.substr(from);
  const std::string_view name = text.substr(0, text.find(' '));
  std::string_view value = text.substr(name.size());
  for (const std::string_view origin : {"updated", "default"})
    if (value.ends_with(origin)) value.remove_suffix(origin.size());
  const std::size_t front = value.find_first_not_of(" .");
  if (front == std::string_view::npos) return {};
  const std::size_t back = value.find_last_not_of('.');
  return {name, value.substr(front, back + 1 - front)};
}

class NeoxWords {
 public:
  explicit NeoxWords(const NeoxValues& all) : all_(all) {}

  // Without a name: nothing that a step depends on.
  PrintedLine line(std::string_view name, std::string_view value) const {
    const auto same = std::find_if(std::begin(kSame), std::end(kSame), [&](const auto& pair) { return pair.first == name; });
    if (same != std::end(kSame)) return printed(same->second, value);
    if (name == "pipe_parallel_size") return printed("pipeline_model_parallel_size", value == "0" ? "1" : value);
    if (name == "precision") return printed(value == "bfloat16" ? "bf16" : value, "True");
    if (name == "norm") return printed("normalization", value.find("rms") == std::string_view::npos ? "LayerNorm" : "RMSNorm");
    if (name == "pos_emb") return printed("position_embedding_type", positions(value));
    if (name == "activation") return gated() ? printed("swiglu", "True") : PrintedLine();
    if (name == "intermediate_size") return width(value);
    if (name == "moe_num_experts") return value == "1" ? PrintedLine() : printed("num_experts", value);
    if (name == "attention_config" && value.find("flash") != std::string_view::npos) return printed("use_flash_attn", "True");
    if (name == "optimizer_type") return printed("optimizer", value.find("dam") == std::string_view::npos ? value : "adam");
    return {};
  }

 private:
  static PrintedLine printed(std::string_view name, std::string_view value) { return {std::string(name), std::string(value)}; }

  static std::string_view positions(std::string_view value) {
    if (value == "rotary" || value == "alibi") return value;
    return value == "none" ? "none" : "learned_absolute";
  }

  std::string_view value(std::string_view name) const {
    const auto found = all_.find(name);
    return found == all_.end() ? std::string_view() : std::string_view(found->second);
  }

  bool gated() const { return std::find(std::begin(kGated), std::end(kGated), value("activation")) != std::end(kGated); }

  // A gated MLP takes two thirds of it, rounded up.
  PrintedLine width(std::string_view stated) const {
    const auto number = [](std::string_view text) { return std::atoll(std::string(text).c_str()); };
    if (!gated()) return stated == "None" ? PrintedLine() : printed("ffn_hidden_size", stated);
    const long long all = stated == "None" ? 4 * number(value("hidden_size")) : number(stated);
    const long long multiple = std::max(1LL, number(value("mlp_multiple_of")));
    return printed("ffn_hidden_size", std::to_string((2 * all / 3 + multiple - 1) / multiple * multiple));
  }

  const NeoxValues& all_;
};

}  // namespace

std::vector<PrintedLine> megatron_lines_of_neox(const std::string& printed, int line) {
  const std::vector<std::string> lines = split_text(printed, '\n');
  NeoxValues all;
  for (const std::string& each : lines)
    if (const auto [name, value] = neox_line(each); !name.empty()) all[std::string(name)] = value;
  const NeoxWords words(all);
  std::vector<PrintedLine> made;
  for (const std::string& each : lines) {
    const auto [name, value] = neox_line(each);
    made.push_back(words.line(name, value));
    made.back().line = line++;
  }
  std::erase_if(made, [](const PrintedLine& each) { return each.name.empty(); });
  made.insert(made.end(), {{"gpt_neox", "True", line}, {"deepspeed", "True", line + 1}});
  return made;
}

}  // namespace panpipe::jobs
