// An exported job, read back, has the prediction of the plan: random plans of random models, 500 for each trainer whose jobs are
// read. A job with something that its trainer cannot express reports it, and is not compared.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "base/error.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "costmodel/scenario/nanotron_cuts.hpp"
#include "jobs/export.hpp"
#include "jobs/shared_keys.hpp"
#include "jobs/trainer_jobs.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe::jobs {
namespace {

// Trainers whose jobs state no model.
bool needs_model(const std::string& trainer) {
  return trainer == "deepspeed" || trainer == "accelerate" || trainer == "huggingface";
}

constexpr int kPlans = 500, kMostDraws = 6000;

class Draw {
 public:
  explicit Draw(unsigned seed) : engine_(seed) {}
  int below(int count) { return static_cast<int>(engine_() % static_cast<unsigned>(count)); }
  bool one_in(int count) { return below(count) == 0; }
  template <class T>
  T of(std::initializer_list<T> values) {
    return *(values.begin() + below(static_cast<int>(values.size())));
  }

 private:
  std::mt19937 engine_;
};

struct Drawn {
  std::string scenario;
  std::string model;  // config.json
  int nodes = 1;
  bool experts = false;
  NanotronSizes sizes = {};
};

// A model of a class that all trainers have.
std::string model_text(Draw& draw, const std::string& trainer, int layers, Drawn& drawn) {
  bool& experts = drawn.experts;
  if (trainer == "torchtitan") return "";
  const int heads = draw.of({8, 16}), hidden = heads * draw.of({64, 128}), groups = draw.of({heads, heads / 4});
  const int ffn = hidden * draw.of({2, 4}), words = draw.of({32000, 50304, 128256});
  drawn.sizes = {layers, hidden, heads, ffn, words};
  const std::string sizes = fmt::format(
      "\"num_hidden_layers\": {}, \"hidden_size\": {}, \"num_attention_heads\": {}, \"num_key_value_heads\": {}, "
      "\"intermediate_size\": {}, \"vocab_size\": {}, \"max_position_embeddings\": 8192, \"tie_word_embeddings\": {}",
      layers, hidden, heads, groups, ffn, words, draw.one_in(3));
  experts = trainer != "deepspeed" && trainer != "huggingface" && draw.one_in(3);
  if (experts && trainer == "nanotron")
    return fmt::format(
        "{{\"model_type\": \"qwen2_moe\", {}, \"moe_intermediate_size\": {}, \"num_experts\": 8, \"num_experts_per_tok\": {}, "
        "\"qkv_bias\": {}, \"shared_expert_intermediate_size\": {}, \"mlp_only_layers\": [{}]}}",
        sizes, hidden / 2, draw.of({1, 2}), draw.one_in(2), draw.of({0, hidden}), draw.one_in(3) ? "0, 1" : "");
  if (experts)
    return fmt::format(
        "{{\"model_type\": \"qwen3_moe\", {}, \"head_dim\": {}, \"moe_intermediate_size\": {}, \"num_experts\": 8, "
        "\"num_experts_per_tok\": {}, \"norm_topk_prob\": true, \"decoder_sparse_step\": 1, \"mlp_only_layers\": []}}",
        sizes, hidden / heads, hidden / 2, draw.of({1, 2}));
  return fmt::format("{{\"model_type\": \"{}\", {}}}",
                     trainer == "nanotron" ? draw.of({"llama", "mistral", "qwen2"}) : draw.of({"llama", "mistral"}), sizes);
}

std::string cuts_text(Draw& draw, int layers, int stages) {
  std::vector<int> starts;
  for (int i = 1; i < layers; ++i) starts.push_back(i);
  std::vector<int> chosen;
  for (int left = stages - 1; left > 0 && !starts.empty(); --left) {
    const int at = draw.below(static_cast<int>(starts.size()));
    chosen.push_back(starts[at]);
    starts.erase(starts.begin() + at);
  }
  std::sort(chosen.begin(), chosen.end());
  std::vector<std::string> units;
  for (const int layer : chosen) units.push_back(fmt::format("h.{}.attention", layer));
  if (draw.one_in(5)) units.back() = "head";
  return fmt::format("[{}]", fmt::join(units, ", "));
}

// The cuts that nanotron makes by itself.
std::string cuts_of_nanotron(const NanotronSizes& sizes, int stages) {
  const std::vector<int> layers = nanotron_layers(sizes, stages);
  std::vector<std::string> cuts;
  int layer = 0;
  for (std::size_t s = 0; s + 1 < layers.size(); ++s) cuts.push_back(cut_before(layer += layers[s], sizes.layers));
  return cuts.empty() ? "auto" : fmt::format("[{}]", fmt::join(cuts, ", "));
}

std::string recompute_text(Draw& draw, const std::string& trainer, int layers) {
  switch (draw.below(trainer == "megatron" ? 6 : 3)) {
    case 1:
      return "recompute: full\n";
    case 2:
      return trainer == "torchtitan" ? "recompute: {operators: [norms, elementwise, second-products]}\n" : "recompute: full\n";
    case 3:
      return "recompute: selective\n";
    case 4:
      return fmt::format("recompute: {{first: {}}}\n", 1 + draw.below(layers / 4));
    case 5:
      return draw.of(
          {"recompute: {chunk: 2}\n", "recompute: {modules: [core_attn, layernorm]}\n", "recompute: {modules: [mlp]}\n"});
    default:
      return "";
  }
}

// Megatron-LM's clipping is not predicted; that of the others is a choice of the framework.
std::string framework_text(Draw& draw, const std::string& trainer, bool clips) {
  if (trainer == "megatron")
    return draw.of({"framework: megatron-core\n",
                    "framework: {name: megatron-core, overlap_all_reduce: true, overlap_reduce_scatter: true}\n",
                    "framework: {name: megatron-core, attention: flash-2}\n"});
  if (trainer == "accelerate") {
    const char* name = draw.of({"eager-sdpa", "torch-compile", "deepspeed"});
    return fmt::format("framework: {{name: {}{}}}\n", name,
                       clips && std::string(name) == "deepspeed" ? ", gradient_clipping: foreach" : "");
  }
  if (trainer == "huggingface")
    return fmt::format("framework: {{name: {}, optimizer_kernel: {}, gradient_clipping: foreach}}\n",
                       draw.of({"transformers-5", "torch-compile"}), draw.of({"foreach", "fused"}));
  // Its preset is dated; a job without a release, as an exported one is, is of the newest.
  if (trainer == "nanotron")
    return fmt::format("trainer: nanotron\n{}", clips ? "framework: {gradient_clipping: foreach}\n" : "");
  const char* eager = trainer == "torchtitan" && draw.one_in(2) ? ", elementwise: eager, normalization: modules" : "";
  return fmt::format("framework: {{name: {}{}{}}}\n", trainer, eager, clips ? ", gradient_clipping: foreach" : "");
}

Drawn draw_plan(Draw& draw, const std::string& trainer) {
  Drawn drawn;
  drawn.nodes = draw.of({1, 2});
  const bool megatron = trainer == "megatron", titan = trainer == "torchtitan";
  const int gpus = 8 * drawn.nodes;
  const bool hugging = trainer == "huggingface" || trainer == "accelerate";
  const bool plain = trainer == "huggingface" || trainer == "deepspeed";  // neither tensor nor context parallelism
  const int pipeline = hugging ? 1 : draw.of({1, 2, 2, 4, 4, 8}), tensor = plain ? 1 : draw.of({1, 1, 2, 4});
  const int context = plain ? 1 : draw.of({1, 1, 2});
  const int data = std::max(1, gpus / (pipeline * tensor * context));
  const int layers = titan ? 6 : draw.of({4, 8, 12, 16});
  drawn.model = model_text(draw, trainer, layers, drawn);
  if (titan)
    drawn.model =
        "{\"model_type\": \"llama\", \"num_hidden_layers\": 6, \"hidden_size\": 256, \"num_attention_heads\": 16, "
        "\"num_key_value_heads\": 16, \"intermediate_size\": 768, \"vocab_size\": 2048, \"max_position_embeddings\": 131072, "
        "\"rope_theta\": 500000, \"rms_norm_eps\": 1e-05, \"tie_word_embeddings\": false}";
  const bool nanotron = trainer == "nanotron";
  const int each = pipeline > 1 && (megatron || titan) ? draw.of({1, 1, 2, 3}) : 1;
  std::string text = fmt::format("panpipe: 1\ncluster: {{file: clusters/h100x8.yaml, nodes: {}}}\n", drawn.nodes);
  text += fmt::format("workload: {{config: {}, sequence: {}}}\n", needs_model(trainer) ? "MODEL" : drawn.model,
                      draw.of({512, 1024, 2048}));
  text += fmt::format("parallel: {{pipeline: {}, tensor: {}, context: {}, data: {}, zero: {}", pipeline, tensor, context, data,
                      draw.below(nanotron ? 2 : 4));
  if (each > 1) text += fmt::format(", virtual_stages: {}", each);
  if (trainer == "accelerate" && draw.one_in(4) && data % 2 == 0) text += fmt::format(", shard: {}", context * 2);
  if (tensor > 1 && !hugging && (titan || draw.one_in(2) || drawn.experts)) text += ", sequence_parallel: true";
  if (drawn.experts && megatron) text += fmt::format(", expert: {}", draw.of({1, 2, 4}));
  if (context > 1)
    text += fmt::format(", context_exchange: {}", titan      ? "all-gather"
                                                  : nanotron ? "ring"
                                                             : draw.of({"ring", "all-gather", "ulysses"}));
  text += fmt::format("}}\nbatch: {{micro: {}, microbatches: {}}}\n", draw.of({1, 2, 4}), pipeline * draw.of({1, 2, 3}));
  if (pipeline > 1)
    text += fmt::format("schedule: {}\n", each > 1                                                ? "interleaved-1f1b"
                                          : !megatron && trainer != "deepspeed" && draw.one_in(3) ? "gpipe"
                                                                                                  : "1f1b");
  if (pipeline > 1 && !draw.one_in(4))
    text +=
        "partition: " + (nanotron ? cuts_of_nanotron(drawn.sizes, pipeline) : cuts_text(draw, layers, pipeline * each)) + "\n";
  text += recompute_text(draw, trainer, layers);
  text +=
      fmt::format("precision: {}\n", draw.of(megatron ? std::initializer_list<const char*>{"bf16", "bf16", "fp16", "fp32", "fp8"}
                                             : titan  ? std::initializer_list<const char*>{"bf16", "bf16", "fp32", "fp8"}
                                                      : std::initializer_list<const char*>{"bf16", "fp16", "fp32"}));
  text += draw.of({"optimizer: adamw\n", "optimizer: adamw\n", "optimizer: {name: adamw, states: bf16}\n"});
  const bool clips = trainer == "huggingface" || titan || draw.one_in(4);  // their default
  if (clips) text += "training: {clip_gradients: 1}\n";
  drawn.scenario = text + framework_text(draw, trainer, clips);
  return drawn;
}

// What a job of Accelerate leaves to the training script, and its owner states to the import.
std::vector<std::string> in_code(const std::string& trainer, const Plan& plan) {
  if (trainer != "accelerate") return {};
  return {fmt::format("batch.microbatches={}", plan.schedule.microbatches),
          plan.stages.front().recompute == Recompute::Full ? "recompute=full" : "recompute=none"};
}

// The prediction of the job as it is imported.
std::string difference(const std::string& trainer, const Drawn& drawn, const std::string& model_file, bool& compared) {
  std::string text = drawn.scenario;
  if (const std::size_t at = text.find("MODEL"); at != std::string::npos) text.replace(at, 5, model_file);
  const Experiment ours(parse_scenario(text, "drawn.yaml", "."));
  const Plan plan = ours.plan("");
  const ExportedJob job = export_job(trainer, {ours, plan, "drawn.yaml", "", "job.txt"});
  compared = job.cannot.empty() && job.schedule_csv.empty();
  if (!compared) return "";
  JobOptions options;
  options.cluster = "clusters/h100x8.yaml";
  options.gpus = static_cast<int>(plan.devices.size());
  if (trainer == "accelerate") options.micro = plan.micro;
  if (needs_model(trainer)) options.model = model_file, options.sequence = ours.scenario.workload.sequence;
  try {
    const ImportedJob imported = importer_named(trainer).read(job.text, "job.txt", options);
    if (!imported.not_understood.empty()) return fmt::format("not understood: {}", fmt::join(imported.not_understood, ", "));
    const std::string back = scenario_text(imported);
    const Experiment theirs(parse_scenario(back, "imported.yaml", ".", in_code(trainer, plan)));
    const Metrics a = predict(ours, plan).metrics, b = predict(theirs, theirs.plan("")).metrics;
    const double step = std::abs(b.step_time_s / a.step_time_s - 1), memory = std::abs(b.peak_memory_bytes - a.peak_memory_bytes);
    if (step < 1e-9 && memory <= 16) return "";
    return fmt::format("step {} s -> {} s, memory {} -> {} B\n{}\n{}", a.step_time_s, b.step_time_s, a.peak_memory_bytes,
                       b.peak_memory_bytes, job.text, back);
  } catch (const InputError& error) {
    return fmt::format("{}\n{}", error.what(), job.text);
  }
}

class RoundTrip : public ::testing::TestWithParam<const char*> {};

TEST_P(RoundTrip, ExportAndImportGiveTheSamePrediction) {
  const std::string trainer = GetParam();
  Draw draw(1);
  int compared = 0, refused = 0, open = 0, differ = 0;
  std::map<std::string, int> reasons;
  for (int i = 0; i < kMostDraws && compared < kPlans; ++i) {
    const Drawn drawn = draw_plan(draw, trainer);
    const std::string model_file = test::scratch().write("model.json", drawn.model);
    try {
      bool whole = false;
      const std::string found = difference(trainer, drawn, model_file, whole);
      (whole ? compared : open) += 1;
      if (!found.empty() && ++differ <= 3) ADD_FAILURE() << drawn.scenario << "\n" << found;
    } catch (const InputError& error) {
      ++refused;  // no plan, or none of this trainer
      ++reasons[error.diagnostics().front().message.substr(0, 60)];
    } catch (const NoAnswer&) {
      ++refused;
    }
  }
  EXPECT_EQ(differ, 0);
  EXPECT_EQ(compared, kPlans) << refused << " were refused, " << open << " cannot be expressed";
  RecordProperty("refused", refused);
  RecordProperty("cannot", open);
  if (::testing::Test::HasFailure())
    for (const auto& [reason, count] : reasons) printf("%5d %s\n", count, reason.c_str());
}

INSTANTIATE_TEST_SUITE_P(Trainers, RoundTrip,
                         ::testing::Values("megatron", "torchtitan", "deepspeed", "nanotron", "accelerate", "huggingface"));

}  // namespace
}  // namespace panpipe::jobs
