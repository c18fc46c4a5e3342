#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "jobs/bounds.hpp"
#include "jobs/megatron/job.hpp"
#include "jobs/megatron/layout.hpp"
#include "jobs/shared_keys.hpp"

namespace panpipe::jobs {
namespace {

constexpr const char* kLayout = "--pipeline-model-parallel-layout";
constexpr const char* kPerStage = "--num-layers-per-virtual-pipeline-stage";
constexpr const char* kFirst = "--decoder-first-pipeline-num-layers";
constexpr const char* kLast = "--decoder-last-pipeline-num-layers";

constexpr const char* kWeave = "--overlap-moe-expert-parallel-comm";

class MegatronStages {
 public:
  explicit MegatronStages(MegatronJob& megatron) : m_(megatron), a_(megatron.arguments) {}

  void read() {
    const int each = virtual_stages();
    const int stages = m_.degrees.pipeline * each;
    if (each > 1 && m_.degrees.pipeline > 1) {
      m_.job.set("parallel.virtual_stages", each, origin_);
      put_interleaved();
    } else if (m_.degrees.pipeline == 1 && a_.flag(kWeave)) {  // combined_1f1b_schedule_for_no_pipelining
      m_.job.set("schedule", "{name: interleaved-1f1b, stages_per_rank: 1, combined: true}", kWeave);
    } else {
      m_.job.set("schedule", "1f1b", "Megatron's schedule without virtual stages");
    }
    // A stage holds a layer, the embedding or the loss.
    if (stages > m_.layers + 2)
      throw InputError(fmt::format("{}: {} stages are too many for {} layers", a_.name(), stages, m_.layers));
    put_partition(layers_of_stages(stages));
  }

 private:
  void put_interleaved() {
    const char* turn = "--microbatch-group-size-per-virtual-pipeline-stage";
    std::vector<std::string> options, origins;
    if (const auto group = a_.integer(turn, 1, kMostSamples)) {
      options.push_back(fmt::format("group: {}", *group));
      origins.emplace_back(turn);
    }
    if (a_.flag(kWeave)) {
      options.emplace_back("combined: true");
      origins.emplace_back(kWeave);
    }
    if (options.empty()) return m_.job.set("schedule", "interleaved-1f1b", "Megatron's schedule with virtual stages");
    m_.job.set("schedule", fmt::format("{{name: interleaved-1f1b, {}}}", fmt::join(options, ", ")),
               fmt::format("{}", fmt::join(origins, ", ")));
  }

  // Stages of a rank, and in `origin_` where they come from.
  int virtual_stages() {
    const auto per_stage = a_.integer(kPerStage, 1, kMostLayers);
    const auto stated = a_.integer("--num-virtual-stages-per-pipeline-rank", 1, kMostLayers);
    if (per_stage && stated) a_.refuse(kPerStage, "and --num-virtual-stages-per-pipeline-rank exclude each other");
    embedding_ = a_.flag("--account-for-embedding-in-pipeline-split"), loss_ = a_.flag("--account-for-loss-in-pipeline-split");
    // DeepSpeed counts modules by name: the embedding stands at both ends, tied.
    if (const auto partition = a_.text("--pp-partition-method")) {
      if (*partition == "type:transformer|embedding")
        embedding_ = loss_ = true;
      else
        m_.job.not_modelled.push_back("--pp-partition-method " + *partition);
    }
    origin_ = "--num-virtual-stages-per-pipeline-rank";
    if (const auto text = a_.text(kLayout)) {
      if (per_stage || stated) a_.refuse(kLayout, "excludes the arguments for virtual stages");
      origin_ = kLayout;
      return stages_of_layout(*text);
    }
    if (!per_stage) return stated.value_or(1);
    if (uneven_ends())
      a_.refuse(kPerStage, fmt::format("excludes {}", a_.has(kFirst) ? kFirst : kLast),
                "--num-virtual-stages-per-pipeline-rank states the virtual stages then");
    origin_ = "--num-layers / --pipeline-model-parallel-size / --num-layers-per-virtual-pipeline-stage";
    if (parts() % (static_cast<long long>(m_.degrees.pipeline) * *per_stage) != 0)
      a_.refuse(kPerStage, fmt::format("is {}, and {} layers over {} stages are no multiple of it", *per_stage, parts(),
                                       m_.degrees.pipeline));
    return parts() / m_.degrees.pipeline / *per_stage;
  }

  int stages_of_layout(const std::string& text) {
    layout_ = read_layout(text);
    if (!layout_.problem.empty()) a_.refuse(kLayout, layout_.problem, layout_.help);
    if (layout_.layers() != m_.layers)
      a_.refuse(kLayout, fmt::format("has {} layers, and the model has {}", layout_.layers(), m_.layers));
    int further = 0;
    for (const LayoutStage& stage : layout_.stages) further += stage.predictors;
    if (m_.further > 0 && further != m_.further)
      a_.refuse(kLayout,
                fmt::format("has {} layers that predict further tokens, and --mtp-num-layers is {}", further, m_.further));
    const auto stages = static_cast<int>(layout_.stages.size());
    if (stages % m_.degrees.pipeline != 0)
      a_.refuse(kLayout, fmt::format("has {} stages, no multiple of {}", stages, m_.degrees.pipeline));
    return stages / m_.degrees.pipeline;
  }

  bool uneven_ends() const { return a_.has(kFirst) || a_.has(kLast); }

  // Layers, and the embedding and the loss where they count as one.
  int parts() const { return m_.layers + (embedding_ ? 1 : 0) + (loss_ ? 1 : 0); }

  std::vector<int> layers_of_stages(int stages) {
    if (!layout_.stages.empty()) {
      std::vector<int> layers;
      for (const LayoutStage& stage : layout_.stages) layers.push_back(stage.layers);
      return layers;
    }
    if (uneven_ends()) return ends_apart(stages);
    if (parts() % stages != 0) {
      if (embedding_ || loss_)
        a_.refuse(embedding_ ? "--account-for-embedding-in-pipeline-split" : "--account-for-loss-in-pipeline-split",
                  fmt::format("makes {} parts, which {} stages do not divide", parts(), stages));
      throw InputError(fmt::format("{}: {} layers cannot be cut into {} equal stages", a_.name(), m_.layers, stages),
                       fmt::format("Megatron needs {}, {} or {} here", kFirst, kLast, kLayout));
    }
    std::vector<int> layers(stages, parts() / stages);
    if (embedding_) --layers.front();
    if (loss_) --layers.back();
    return layers;
  }

  // The first and the last rank have their own numbers of layers, the ranks between them share the rest; a rank divides its
  // layers over its virtual stages (Megatron's get_num_layers_to_build).
  std::vector<int> ends_apart(int stages) {
    const auto first = a_.integer(kFirst, 1, kMostLayers), last = a_.integer(kLast, 1, kMostLayers);
    const char* option = first ? kFirst : kLast;
    if (embedding_ || loss_)
      a_.refuse(option, "excludes --account-for-embedding-in-pipeline-split and --account-for-loss-in-pipeline-split");
    const int others = m_.degrees.pipeline - (first ? 1 : 0) - (last ? 1 : 0),
              rest = m_.layers - first.value_or(0) - last.value_or(0);
    if (others < 0 || rest < 0 || (others == 0) != (rest == 0) || (others > 0 && rest % others != 0))
      a_.refuse(option, fmt::format("leaves {} layers for {} ranks, which is not the same for each", rest, std::max(0, others)));
    const int each = stages / m_.degrees.pipeline;
    std::vector<int> layers;
    for (int stage = 0; stage < stages; ++stage) {
      const int rank = stage % m_.degrees.pipeline;
      const int own = rank == 0 && first ? *first : rank == m_.degrees.pipeline - 1 && last ? *last : rest / others;
      if (own % each != 0)
        a_.refuse(option, fmt::format("gives rank {} {} layers, no multiple of its {} virtual stages", rank, own, each));
      layers.push_back(own / each);
    }
    return layers;
  }

  void put_partition(const std::vector<int>& layers) {
    if (layers.size() < 2) return;
    std::vector<std::string> starts;
    int layer = 0, further = 0;  // that predict further tokens: with the loss where no layout puts them elsewhere
    for (std::size_t i = 0; i + 1 < layers.size(); ++i) {
      const int own = layout_.stages.empty() || m_.further == 0 ? 0 : layout_.stages[i].predictors;
      if (i > 0 && layers[i] + own == 0)
        throw InputError(fmt::format("{}: a stage without layers between others is not modelled", a_.name()));
      layer += layers[i], further += own;
      const bool before_further = layer == m_.layers && further < m_.further;
      starts.push_back(before_further ? fmt::format("mtp.{}.join", further + 1) : cut_before(layer, m_.layers));
    }
    m_.job.set("partition", fmt::format("[{}]", fmt::join(starts, ", ")), "layers of the stages");
  }

  MegatronJob& m_;
  Arguments& a_;
  std::string origin_;
  bool embedding_ = false, loss_ = false;
  MegatronLayout layout_;
};

}  // namespace

void read_megatron_stages(MegatronJob& megatron) { MegatronStages(megatron).read(); }

}  // namespace panpipe::jobs
