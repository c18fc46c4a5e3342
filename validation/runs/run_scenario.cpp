#include "validation/runs/run_scenario.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/error.hpp"
#include "base/input/source_text.hpp"
#include "costmodel/degrees/axes.hpp"
#include "costmodel/scenario/nanotron_cuts.hpp"
#include "validation/runs/run_choices.hpp"
#include "validation/runs/run_cluster.hpp"

namespace panpipe::validation {
namespace {

constexpr int kVocabulary = 51200;  // GPT-2's, padded as Megatron-LM does
// Zero Bubble's models: 12 layers hidden^2 + vocabulary hidden rounds to the printed 14.6 B and 28.3 B below 35000 only.
constexpr int kZeroBubbleVocabulary = 32000;
constexpr int kMicrobatch = 2;
constexpr int kHeadSize = 128;
constexpr int kSearchEffort = 10;  // per cent: orders are 0.2 % longer in the mean, the rows' error is the same, 8 times as fast
constexpr const char* kCutsByWeights = "nanotron";  // its blocks, the head among them, state their costs; others count layers
constexpr int kBloomHeads = 96;                     // of the 200B models in the BLOOM chronicles where no other number is printed

class Writer {
 public:
  Writer(const RunRow& row, const std::string& calibration) : row_(row), cluster_(cluster_of(row, calibration)) {}

  RunScenario write() {
    if (!row_.scenario.empty()) return stated_scenario();
    if (!cluster_.problem.empty()) skip(cluster_.problem);
    degrees();
    if (result_.skipped.empty()) require_dimensions();
    if (!result_.skipped.empty()) return result_;
    result_.assumed = row_.assumed;
    result_.assumed.insert(result_.assumed.end(), cluster_.assumed.begin(), cluster_.assumed.end());
    add("panpipe: 1");
    add("cluster: " + cluster_.yaml);
    workload();
    batch();
    precision();
    parallel();
    schedule();
    partition();
    add("recompute: " + stated("recompute", row_.recompute, "none"));
    if (!row_.optimizer.empty()) add("optimizer: " + row_.optimizer);
    if (!row_.offload.empty()) add("offload: " + row_.offload);
    framework();
    if (!result_.skipped.empty()) result_.text.clear();
    return result_;
  }

 private:
  // The text or the file states what no column does: experts, a model of another kind. It may not lead out of the table's folder.
  RunScenario stated_scenario() {
    if (row_.scenario.find_first_of("{\n") != std::string::npos) {
      result_.rolling = row_.step_kind == "period";
      result_.text = row_.scenario;
      result_.folder = (std::filesystem::path(row_.file).parent_path() / ".").string();
      return result_;
    }
    const std::filesystem::path name = std::filesystem::path(row_.scenario).lexically_normal();
    if (name.is_absolute() || *name.begin() == "..") {
      skip(fmt::format("scenario: {} is not in the folder of the table or below", row_.scenario));
      return result_;
    }
    result_.rolling = row_.step_kind == "period";
    try {
      const std::filesystem::path file = std::filesystem::path(row_.file).parent_path() / name;
      result_.text = read_text_file(file.string());
      result_.folder = (file.parent_path() / ".").string();
    } catch (const InputError& error) {
      skip(error.diagnostics().front().message);
    }
    return result_;
  }

  void add(const std::string& line) { result_.text += line + "\n"; }
  void skip(const std::string& why) {
    if (result_.skipped.empty()) result_.skipped = why;
  }
  void assume(const std::string& what) { result_.assumed.push_back(what); }
  std::string stated(const char* column, const std::string& value, const std::string& otherwise) {
    if (value.empty()) assume(fmt::format("{}: {}", column, otherwise));
    return value.empty() ? otherwise : value;
  }
  int stated(const char* column, std::optional<int> value, int otherwise) {
    if (!value) assume(fmt::format("{}: {}", column, otherwise));
    return value.value_or(otherwise);
  }

  void degrees() {
    degrees_.tensor = row_.tp.value_or(1);
    degrees_.pipeline = row_.pp.value_or(1);
    degrees_.context = row_.context_size.value_or(1);
    const int gpus = row_.gpus.value_or(degrees_.device_count() * row_.dp.value_or(1));
    degrees_.data = row_.dp.value_or(std::max(1, gpus / degrees_.device_count()));
    const std::string context = degrees_.context > 1 ? fmt::format(" x context_size {}", degrees_.context) : "";
    if (degrees_.device_count() > gpus)
      skip(fmt::format("tp {} x pp {} x dp {}{} needs more than {} GPUs", degrees_.tensor, degrees_.pipeline, degrees_.data,
                       context, gpus));
    if (row_.expert_size.value_or(1) > 1)
      skip("expert_size: no column states the experts of a model; `scenario` names a file that does");
  }

  void require_dimensions() {
    std::string missing;
    const auto need = [&](const char* name, const std::optional<int>& value) {
      if (!value) missing += (missing.empty() ? "" : ", ") + std::string(name);
    };
    need("layers", row_.layers);
    need("hidden", row_.hidden);
    need("seq", row_.seq);
    need("global_batch", row_.global_batch);
    if (!missing.empty()) skip("not stated: " + missing);
  }

  // Heads of 128, or the nearest size that divides.
  int heads() {
    const int hidden = *row_.hidden, step = degrees_.tensor;
    if (row_.framework == "megatron-deepspeed" && hidden % kBloomHeads == 0 && kBloomHeads % step == 0) return kBloomHeads;
    int best = step;
    for (int a = step; a <= hidden; a += step)
      if (hidden % a == 0 &&
          std::abs(static_cast<double>(hidden) / a - kHeadSize) < std::abs(static_cast<double>(hidden) / best - kHeadSize))
        best = a;
    return best;
  }

  void workload() {
    const int hidden = *row_.hidden;
    // A gated MLP has three matrices, so its width is printed and is less than four times the hidden size.
    const bool gated = row_.kv_heads.has_value() || (row_.ffn && *row_.ffn < 7 * hidden / 2);
    if (gated) assume(fmt::format("model: llama ({})", row_.kv_heads ? "kv_heads are stated" : "ffn is less than 3.5 x hidden"));
    const int heads_used = row_.heads ? *row_.heads : stated("heads", row_.heads, heads());
    std::string text = fmt::format("{{model: {}, layers: {}, hidden: {}, heads: {}, sequence: {}", gated ? "llama" : "gpt",
                                   *row_.layers, hidden, heads_used, *row_.seq);
    if (row_.kv_heads) text += fmt::format(", kv_heads: {}", *row_.kv_heads);
    if (row_.head_size) text += fmt::format(", head_size: {}", *row_.head_size);
    if (!row_.head_size && hidden % heads_used != 0)
      text += fmt::format(", head_size: {}", stated("head_size", row_.head_size, kHeadSize));
    if (row_.ffn) text += fmt::format(", ffn: {}", *row_.ffn);
    text += fmt::format(", vocabulary: {}",
                        stated("vocab", row_.vocab, row_.framework == "megatron-zb" ? kZeroBubbleVocabulary : kVocabulary));
    if (!row_.tied_embedding.empty()) text += ", tied_embedding: " + row_.tied_embedding;
    add("workload: " + text + "}");
  }

  void batch() {
    const double per_replica = static_cast<double>(*row_.global_batch) / degrees_.data;
    int otherwise = std::max(1, std::min(kMicrobatch, static_cast<int>(per_replica)));
    if (std::fmod(per_replica, otherwise) != 0) otherwise = 1;
    degrees_.micro = row_.micro_batch ? *row_.micro_batch : stated("micro_batch", row_.micro_batch, otherwise);
    const double exact = per_replica / degrees_.micro;
    degrees_.microbatches = std::max(1, static_cast<int>(std::lround(exact)));
    if (std::abs(exact - degrees_.microbatches) > 1e-9)
      assume(fmt::format("microbatches: {} (rounded from {:.2f})", degrees_.microbatches, exact));
    // The time of the rounded number of microbatches stands for the stated batch.
    add(fmt::format("batch: {{micro: {}, microbatches: {}}}", degrees_.micro, degrees_.microbatches));
  }

  void precision() {
    std::string name = stated("precision", row_.precision, "fp16-mixed");
    if (name == "16bit-mixed") {  // the source does not state which
      name = "fp16";
      assume("precision: fp16");
    }
    add("precision: " + (name == "bf16-mixed" || name == "fp16-mixed" ? name.substr(0, 4) : name));
  }

  void parallel() {
    degrees_.zero = stated("zero", row_.zero, 0);
    degrees_.sequence_parallel = row_.seq_parallel.value_or(false);
    if (!row_.seq_parallel && degrees_.tensor > 1) assume("seq_parallel: false");
    std::string text = yaml_of(degrees_);
    if (!row_.context_exchange.empty()) text.insert(text.size() - 1, ", context_exchange: " + row_.context_exchange);
    add("parallel: " + text);
    // Stated with the schedule.
    if (row_.schedule == "interleaved-1f1b")
      degrees_.virtual_stages =
          row_.virtual_stages ? *row_.virtual_stages : stated("virtual_stages", row_.virtual_stages, least_interleaving());
  }

  // The least number of stages a rank by which its layers go out; 2 where none does.
  int least_interleaving() const {
    if (*row_.layers % degrees_.pipeline != 0) return 2;
    const int each = *row_.layers / degrees_.pipeline;
    for (int stages = 2; stages <= each; ++stages)
      if (each % stages == 0) return stages;
    return 2;
  }

  void schedule() {
    result_.rolling = row_.step_kind == "period";
    std::string name = row_.schedule;
    if (name.empty()) name = stated("schedule", "", degrees_.pipeline > 1 ? "1f1b" : "none");
    if (name == "none" && degrees_.pipeline > 1) return skip("a pipeline of more than one stage needs a schedule");
    if (name == "none" || degrees_.pipeline == 1) name = "1f1b";
    if (name == "interleaved-1f1b")
      add(fmt::format("schedule: {{name: interleaved-1f1b, stages_per_rank: {}}}", degrees_.virtual_stages));
    else if (name == "zb-1p" || name == "zb-2p")
      zero_bubble(name == "zb-1p" ? degrees_.pipeline : 2 * degrees_.pipeline);
    else
      add("schedule: " + name);
  }

  // Their runtime posts its transfers ahead, and starts the next step without waiting for other ranks (arXiv 2401.10241, section
  // 4).
  void zero_bubble(int memory) {
    add(fmt::format("schedule: {{name: zb-auto, memory: {}, effort: {}}}", memory, kSearchEffort));
    if (row_.framework != "megatron-zb") return;
    add("transfers: {semantics: asynchronous}");
    if (!row_.step_kind.empty()) return;
    result_.rolling = true;
    assume("step_kind: period");
  }

  void framework() {
    const std::string name = stated("framework", row_.framework, "megatron");
    std::string choices;
    for (const auto& [key, word] : framework_choices(row_, result_.assumed)) choices += fmt::format(", {}: {}", key, word);
    add(choices.empty() ? "framework: " + name : fmt::format("framework: {{name: {}{}}}", name, choices));
  }

  // Whole layers, as many on every stage; where that does not go out, the embedding and the head count as a layer each; else
  // as many as fit on every stage but the last ones.
  void partition() {
    const int stages = degrees_.pipeline * degrees_.virtual_stages, layers = *row_.layers;
    if (stages == 1) return;
    if (row_.stages.empty() && row_.framework == kCutsByWeights) return partition_by_weights();
    if (row_.stages == "by-weights") return partition_by_weights();
    if (row_.stages == "by-cost") return;  // the partition's own way
    const bool ends_count = layers % stages != 0 && (layers + 2) % stages == 0;
    if (ends_count) assume("stages: the embedding and the head count as a layer each");
    const int each = ends_count ? (layers + 2) / stages : (layers + stages - 1) / stages;
    if (!ends_count && layers % stages != 0) assume(fmt::format("stages: {} layers on each, the rest on the last", each));
    std::string cuts;
    for (int s = 1; s < stages; ++s) {
      const int layer = each * s - (ends_count ? 1 : 0);
      if (layer > layers || (layer == layers && s + 1 < stages))
        return skip(fmt::format("{} layers cannot fill {} stages", layers, stages));
      cuts += fmt::format("{}{}", cuts.empty() ? "" : ", ", layer == layers ? "head" : fmt::format("h.{}.attention", layer));
    }
    add(fmt::format("partition: [{}]", cuts));
  }

  // Heads of keys do not count in nanotron's costs, and those of queries are the hidden size whatever they are.
  void partition_by_weights() {
    const int hidden = *row_.hidden, layers = *row_.layers;
    const NanotronSizes sizes = {layers, hidden, 1, row_.ffn.value_or(4 * hidden), row_.vocab.value_or(kVocabulary)};
    const std::vector<std::string> cuts = nanotron_cuts(sizes, degrees_.pipeline * degrees_.virtual_stages);
    assume(cuts.empty() ? "stages: by-cost" : "stages: by-weights");
    if (!cuts.empty()) add(fmt::format("partition: [{}]", fmt::join(cuts, ", ")));
  }

  const RunRow& row_;
  RunCluster cluster_;
  RunScenario result_;
  Degrees degrees_;
};

}  // namespace

RunScenario scenario_of(const RunRow& row, const std::string& calibration) { return Writer(row, calibration).write(); }

}  // namespace panpipe::validation
