// A segment: what one rank computes alone, with an autograd graph of its own.
#include <ATen/core/grad_mode.h>

#include <optional>

#include "exec/engine/stage/stage_operator.hpp"

namespace panpipe::exec {
namespace {

class Segment : public StageOperator {
 public:
  Segment(const StageSite& site, const StagePart& part)
      : StageOperator(site, part),
        // A stage of one segment gives its outputs in the stage's own order.
        stage_(site.graph, part.first_operator, part.end_operator, whole() ? site.range.outputs : part.makes, site.parameters,
               site.needs_gradient, site.device, site.copies) {
    stage_.set_recomputed(site.range.listed);
  }

  // A forward that is dropped updates the buffers; when it runs again, it works on what they were before. An evaluation updates
  // none. Dropped is a whole pass, or this segment, which its backward runs again.
  void forward(ForwardFlow& flow) override {
    std::vector<at::Tensor> values;
    for (const int tensor : stage_.inputs()) values.push_back(take(flow, tensor));
    CallContext context = flow.context;
    context.seed = seed_of(context, part_.divided || site_.graph.degrees.sequence_parallel);
    context.context_member = site_.groups.member(Among::Context);
    std::vector<at::Tensor> written;
    if (!context.evaluates) written = before(flow.microbatch);
    std::optional<at::NoGradGuard> no_graph;
    if (!context.evaluates && (!flow.recorded || part_.again)) {
      no_graph.emplace();
      std::vector<at::Tensor>& again = before_[flow.microbatch];
      if (written.empty()) again = stage_.written_buffers();
      for (const at::Tensor& buffer : written) again.push_back(buffer.clone());
      if (flow.recorded) kept_[flow.microbatch] = {context, values};
    }
    std::vector<at::Tensor> made = stage_.forward(flow.microbatch, values, context, written);
    for (std::size_t i = 0; i < made.size(); ++i) flow.values[stage_.outputs()[i]].tensor = std::move(made[i]);
  }

  void backward(BackwardFlow& flow) override {
    std::vector<at::Tensor> gradients, found;
    for (const int tensor : stage_.outputs()) gradients.push_back(flow.take(tensor));
    if (auto kept = kept_.extract(flow.microbatch); !kept.empty()) {
      kept.mapped().context.again = true;
      stage_.forward(flow.microbatch, kept.mapped().inputs, kept.mapped().context, before(flow.microbatch));
    }
    if (flow.kind == ActionKind::B && !flow.posting) {
      found = stage_.backward(flow.microbatch, gradients);
    } else {
      found = stage_.input_gradient(flow.microbatch, gradients);
      if (flow.kind == ActionKind::B) flow.weights.push_back(&stage_);
    }
    for (std::size_t i = 0; i < found.size(); ++i) flow.add(stage_.inputs()[i], {std::move(found[i])});
  }

  bool has_weights() const override { return true; }
  void weight_gradient(int microbatch) override { stage_.weight_gradient(microbatch); }
  void forget(int microbatch) override { before_.erase(microbatch); }
  void clear() override {
    stage_.clear();
    before_.clear();
    kept_.clear();
  }

 private:
  bool whole() const {
    return part_.first_operator == site_.range.first_operator && part_.end_operator == site_.range.end_operator;
  }

  // The written buffers as they were before a forward that was dropped; empty if there was none.
  std::vector<at::Tensor> before(int microbatch) {
    auto found = before_.extract(microbatch);
    return found.empty() ? std::vector<at::Tensor>() : std::move(found.mapped());
  }

  struct Kept {
    CallContext context;
    std::vector<at::Tensor> inputs;
  };
  Stage stage_;
  std::unordered_map<int, std::vector<at::Tensor>> before_;  // by microbatch
  std::unordered_map<int, Kept> kept_;                       // of a segment that runs again, by microbatch
};

}  // namespace

StageOperatorPtr make_segment(const StageSite& site, const StagePart& part) { return std::make_unique<Segment>(site, part); }

}  // namespace panpipe::exec
