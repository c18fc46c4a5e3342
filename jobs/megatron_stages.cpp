#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "jobs/bounds.hpp"
#include "jobs/megatron_job.hpp"
#include "jobs/megatron_layout.hpp"

namespace panpipe::jobs {
namespace {

constexpr const char* kLayout = "--pipeline-model-parallel-layout";
constexpr const char* kPerStage = "--num-layers-per-virtual-pipeline-stage";

class MegatronStages {
 public:
  explicit MegatronStages(MegatronJob& megatron) : m_(megatron), a_(megatron.arguments) {}

  void read() {
    const int each = virtual_stages();
    const int stages = m_.pipeline * each;
    if (each > 1 && m_.pipeline > 1) {
      m_.job.set("parallel.virtual_stages", each, origin_);
      m_.job.set("schedule", "interleaved-1f1b", "Megatron's schedule with virtual stages");
    } else {
      m_.job.set("schedule", "1f1b", "Megatron's schedule without virtual stages");
    }
    // A stage holds a layer, the embedding or the loss.
    if (stages > m_.layers + 2)
      throw InputError(fmt::format("{}: {} stages are too many for {} layers", a_.name(), stages, m_.layers));
    put_partition(layers_of_stages(stages));
  }

 private:
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
    origin_ = "--num-layers / --pipeline-model-parallel-size / --num-layers-per-virtual-pipeline-stage";
    if (parts() % (static_cast<long long>(m_.pipeline) * *per_stage) != 0)
      a_.refuse(kPerStage,
                fmt::format("is {}, and {} layers over {} stages are no multiple of it", *per_stage, parts(), m_.pipeline));
    return parts() / m_.pipeline / *per_stage;
  }

  int stages_of_layout(const std::string& text) {
    layout_ = read_layout(text);
    if (!layout_.problem.empty()) a_.refuse(kLayout, layout_.problem, layout_.help);
    if (layout_.layers() != m_.layers)
      a_.refuse(kLayout, fmt::format("has {} layers, and the model has {}", layout_.layers(), m_.layers));
    const auto stages = static_cast<int>(layout_.stages.size());
    if (stages % m_.pipeline != 0) a_.refuse(kLayout, fmt::format("has {} stages, no multiple of {}", stages, m_.pipeline));
    return stages / m_.pipeline;
  }

  // Layers, and the embedding and the loss where they count as one.
  int parts() const { return m_.layers + (embedding_ ? 1 : 0) + (loss_ ? 1 : 0); }

  std::vector<int> layers_of_stages(int stages) {
    if (!layout_.stages.empty()) {
      std::vector<int> layers;
      for (const LayoutStage& stage : layout_.stages) layers.push_back(stage.layers);
      return layers;
    }
    if (a_.has("--decoder-first-pipeline-num-layers") || a_.has("--decoder-last-pipeline-num-layers")) return ends_apart(stages);
    if (parts() % stages != 0) {
      if (embedding_ || loss_)
        a_.refuse(embedding_ ? "--account-for-embedding-in-pipeline-split" : "--account-for-loss-in-pipeline-split",
                  fmt::format("makes {} parts, which {} stages do not divide", parts(), stages));
      throw InputError(fmt::format(
          "{}: {} layers cannot be cut into {} equal stages\n  help: Megatron needs --decoder-first-pipeline-num-layers, "
          "--decoder-last-pipeline-num-layers or --pipeline-model-parallel-layout here",
          a_.name(), m_.layers, stages));
    }
    std::vector<int> layers(static_cast<std::size_t>(stages), parts() / stages);
    if (embedding_) --layers.front();
    if (loss_) --layers.back();
    return layers;
  }

  std::vector<int> ends_apart(int stages) {
    const auto first = a_.integer("--decoder-first-pipeline-num-layers", 1, kMostLayers),
               last = a_.integer("--decoder-last-pipeline-num-layers", 1, kMostLayers);
    const int others = stages - (first ? 1 : 0) - (last ? 1 : 0), rest = m_.layers - first.value_or(0) - last.value_or(0);
    if (others < 1 || rest < 0 || rest % others != 0)
      a_.refuse(first ? "--decoder-first-pipeline-num-layers" : "--decoder-last-pipeline-num-layers",
                fmt::format("leaves {} layers for {} stages, which is not the same for each", rest, others));
    std::vector<int> layers(static_cast<std::size_t>(stages), rest / others);
    if (first) layers.front() = *first;
    if (last) layers.back() = *last;
    return layers;
  }

  void put_partition(const std::vector<int>& layers) {
    if (layers.size() < 2) return;
    if (std::find(layers.begin() + 1, layers.end() - 1, 0) != layers.end() - 1)
      throw InputError(fmt::format("{}: a stage without layers between others is not modelled", a_.name()));
    std::vector<std::string> starts;
    int layer = 0;
    for (std::size_t i = 0; i + 1 < layers.size(); ++i) {
      layer += layers[i];
      starts.push_back(layer < m_.layers ? fmt::format("h.{}.attention", layer) : "head");
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
