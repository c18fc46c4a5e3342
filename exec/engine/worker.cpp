#include "exec/engine/worker.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/index.hpp"
#include "exec/engine/braid_order.hpp"
#include "exec/engine/mesh.hpp"
#include "exec/engine/mixed_bits.hpp"
#include "exec/engine/slices/slice_graph.hpp"
#include "schedule/rolling.hpp"

namespace panpipe::exec {

namespace {

// Number of actions whose receives are posted before their turn.
constexpr std::size_t kReceivesAhead = 4;

// Parameters and buffers of which passes read parts.
class CutParameters : public ParameterStore {
 public:
  using Cut = std::function<at::Tensor(int graph_tensor, const at::Tensor& whole)>;
  CutParameters(const ParameterStore& whole, Cut cut) : whole_(&whole), cut_(std::move(cut)) {}

  at::Tensor tensor(int graph_tensor) const override {
    at::Tensor& part = parts_[graph_tensor];
    if (!part.defined()) part = cut_(graph_tensor, whole_->tensor(graph_tensor));
    return part;
  }

 private:
  const ParameterStore* whole_;
  Cut cut_;
  mutable std::map<int, at::Tensor> parts_;
};

// Ranks with other tokens draw other random numbers.
std::uint64_t seed_of(std::uint64_t seed, const SequenceShare& share) {
  return share.degree == 1 ? seed : seed ^ mixed_bits(static_cast<std::uint64_t>(share.rank));
}

}  // namespace

Worker::Worker(RankSite& site, const ParameterStore& parameters, DataSource data, WorkerOptions options)
    : site_(site),
      data_(std::move(data)),
      options_(std::move(options)),
      share_{member_of(site.plan, Among::Context, site.transport.rank()), site.plan.context},
      labels_(site.layout.cut.empty() ? -1 : labels_of(site.graph)),
      fault_(site.transport.rank()),
      messages_(site, options_.lengths),
      feed_(site.device),
      groups_(site) {
  options_.seed = seed_of(options_.seed, share_);
  before_reading_ = [this] {
    site_.transport.settle(site_.device, site_.deadline,
                           fmt::format("{}, waiting for the row counts of its experts", to_text(site_.action)));
  };
  if (site.plan.context > 1)  // the rows of its tokens, in a table of positions
    own_parts_ = std::make_unique<CutParameters>(parameters, [this](int tensor, const at::Tensor& whole) {
      return site_.layout.cut[tensor] < 0 ? whole : share_.part(whole, site_.layout.cut[tensor]);
    });
  if (options_.autocast) copies_ = std::make_unique<WeightCopies>(*options_.autocast);
  for (const MicrobatchLength& length : options_.lengths)
    of_length_.push_back(
        std::make_unique<CutParameters>(parameters, [&graph = *length.graph](int tensor, const at::Tensor& whole) {
          return first_part(whole, graph.tensors[panpipe::at(tensor)].shape);
        }));
  for (const int stage : stages_of(site.plan, site.place.position)) make_stage(stage, own_parts_ ? *own_parts_ : parameters);
  if (site.plan.schedule.vocabulary_barriers > 0) {
    vocabulary_ = std::make_unique<VocabularyParts>(site, parameters);
    options_.around.insert(options_.around.begin(), vocabulary_.get());
  }
  if (rolling_of(site.plan.schedule) == Rolling::Validated) ahead_ = forwards_ahead(site.plan.schedule, site.layout);
  for (int step = 0; step < site.layout.steps_under_way; ++step)
    for (const Action& action : row_of_step(site.plan.schedule, site.place.position, step, true, true).order)
      if (action.kind == ActionKind::R)
        recomputed_.insert(key_of(action));
      else if (action.kind == ActionKind::Offload)
        parked_[key_of(action)] = nullptr;
}

void Worker::make_stage(int stage, const ParameterStore& parameters) {
  const auto add = [&](int length, const OperatorGraph& graph, const ParameterStore& store) {
    auto& made = stages_[{stage, length}];
    if (!made)
      made = std::make_unique<SegmentedStage>(graph, site_.layout.stages[stage], store, site_.layout.needs_gradient, site_.device,
                                              groups_, copies_.get(), options_.gate);
  };
  if (options_.lengths.empty()) return add(0, site_.graph, parameters);
  for (int m = 0; m < site_.layout.microbatches_of_chain(); ++m) {
    const int length = site_.plan.length_of(site_.place.replica, site_.layout.microbatch_of_step(stage, m));
    add(length, *options_.lengths[panpipe::at(length)].graph, *of_length_[panpipe::at(length)]);
  }
}

int Worker::length_of(const Action& action) const {
  if (options_.lengths.empty()) return 0;
  return site_.plan.length_of(site_.place.replica, site_.layout.microbatch_of_step(action.stage, action.microbatch));
}

StepResult Worker::step(std::int64_t step_index) {
  StepRun run = begin(step_index);
  this->run(run);
  return end(run);
}

StepRun Worker::begin(std::int64_t step_index, bool drains) {
  StepRun run{.step = step_index, .drains = drains, .data = &data_, .first_sample = options_.first_sample};
  run.row = row_of_step(site_.plan.schedule, site_.place.position, step_index, idle_, drains);
  idle_ = drains;
  start(run, "the start of the step");
  return run;
}

double Worker::evaluate(std::int64_t round, const DataSource& data) {
  PANPIPE_CHECK(idle_, "no pass is under way when an evaluation starts");
  StepRun run{.step = round, .evaluates = true, .data = &data};
  run.row = row_of_evaluation(site_.plan.schedule, site_.place.position);
  start(run, "the start of an evaluation");
  this->run(run);
  site_.transport.settle(site_.device, site_.deadline, "the end of an evaluation");
  read_losses(run);
  site_.spans.take();  // no part of a measured step
  return run.result.loss_sum;
}

StepResult Worker::end(StepRun& run) {
  site_.transport.settle(site_.device, site_.deadline, "the end of the step");
  read_losses(run);
  run.result.spans = site_.spans.take();
  return std::move(run.result);
}

void Worker::start(StepRun& run, const char* what) {
  site_.transport.settle(site_.device, site_.deadline, what);
  site_.spans.begin(run.row.order.size() * (1 + site_.layout.messages.size()) + 64);
  run.result.started = site_.spans.started();
  if (copies_) copies_->refresh();
  if (vocabulary_) vocabulary_->begin_step(run.evaluates);
}

void Worker::run_ahead(StepRun& run) {
  run.provisional = true;
  run_until(run, ahead_[static_cast<std::size_t>(site_.place.position)]);
  run.provisional = false;
}

// Forwards that ran with weights that were taken back. What others sent of theirs and no forward here has read arrives once more.
void Worker::forget_forwards(StepRun& run) {
  const auto entries = [&](int position) {
    std::vector<Action> forwards = row_of_step(site_.plan.schedule, position, run.step, true, true).order;
    forwards.resize(ahead_[static_cast<std::size_t>(position)]);
    return forwards;
  };
  const std::vector<Action> own = entries(site_.place.position);
  for (std::size_t index = 0; index < site_.layout.messages.size(); ++index) {
    const Message& message = site_.layout.messages[index];
    const int from = site_.plan.schedule.stage_to_rank[static_cast<std::size_t>(message.from)];
    if (site_.plan.schedule.stage_to_rank[static_cast<std::size_t>(message.to)] != site_.place.position ||
        from == site_.place.position)
      continue;
    for (const Action& made : entries(from)) {
      if (made.stage != message.from) continue;
      const auto reads = [&](const Action& action) {
        return action.stage == message.to && site_.layout.slice_index(action) == site_.layout.slice_index(made);
      };
      if (std::none_of(own.begin(), own.end(), reads)) messages_.drop(static_cast<int>(index), site_.layout.slice_index(made));
    }
  }
  messages_.drop_local();
  for (auto& [index, stage] : stages_) stage->clear();
  run.sequences.clear();
  run.noted.clear();
  run.refused.reset();
  run.result.loss_sum = 0;
  run.next = 0;
  if (copies_) copies_->refresh();  // of the weights that stand
}

void Worker::run(StepRun& run) {
  if (run.refused) refuse_loss(run, run.refused->first, run.refused->second);
  run_until(run, run.row.order.size());
  if (vocabulary_) vocabulary_->finish();
  take_vocabulary_losses(run);
  if (run.drains)
    messages_.finish(
        fmt::format("the end of {}, waiting for its sends to be taken", run.evaluates ? "an evaluation" : "the step"));
  run.masks->clear();
  run.sequences.clear();
  run.slices.clear();
}

void Worker::run_until(StepRun& run, std::size_t end) {
  const std::vector<Action>& order = run.row.order;
  while (run.next < end) {
    const std::size_t members = std::min(order[run.next].cell_size(), order.size() - run.next);
    const std::size_t posted = std::min(run.next + members - 1 + kReceivesAhead, order.size());
    for (std::size_t a = run.next; a < posted; ++a) messages_.post(order[a]);
    run_cell(run, run.next, members);
    run.next += members;
  }
}

// Does weaving these gain anything, and may they be? Two that add to the same weight gradients may not: it is watched which of
// them is the last.
bool Worker::can_weave(const StepRow& row, std::size_t first, std::size_t members) const {
  if (!groups_.any() || members == 1) return false;
  std::set<int> stages;
  for (std::size_t index = first; index < first + members; ++index) {
    const Action& action = row.order[index];
    if (!action.is_compute()) return false;
    if ((action.kind == ActionKind::B || action.kind == ActionKind::W) && !stages.insert(action.stage).second) return false;
  }
  return true;
}

// Members that are not woven are prepared and run one after the other.
void Worker::run_cell(StepRun& run, std::size_t first, std::size_t members) {
  const std::size_t together = can_weave(run.row, first, members) ? members : 1;
  for (std::size_t at = first; at < first + members; at += together) {
    std::vector<Pass> cell;
    std::vector<int> steps;
    for (std::size_t index = at; index < at + together; ++index) {
      cell.push_back(prepare(run, run.row.order[index]));
      steps.push_back(static_cast<int>(cell.back().steps.size()));
      for (AroundActions* one : options_.around) one->before_action(run.row.in_plan[index], run.evaluates);
    }
    for (const int member : woven(steps)) run_step(run, cell[member]);
    for (std::size_t index = at; index < at + together; ++index)
      for (auto one = options_.around.rbegin(); one != options_.around.rend(); ++one)
        (*one)->after_action(run.row.in_plan[index], run.evaluates);
    take_vocabulary_losses(run);
  }
}

void Worker::run_step(StepRun& run, Pass& pass) {
  const Action shown = site_.layout.in_own_step(pass.action);
  const std::string text = to_text(shown);
  const std::int64_t step = step_of(run.row, pass.action, run.step);
  site_.transport.set_action(run.evaluates ? fmt::format("{} of an evaluation", text) : fmt::format("{} of step {}", text, step));
  site_.action = shown;
  if (pass.next == 0) {
    if (!run.evaluates) fault_.before(text, step);
    begin_pass(run, pass);
  }
  {
    const auto parked = parked_.find(key_of(pass.action));
    const bool captures = parked != parked_.end() && pass.action.kind == ActionKind::F && !run.evaluates;
    if (captures && pass.next == 0) parked->second = std::make_unique<ParkedActivations>(site_.device);
    const ParkedActivations::Capture capture(captures ? parked->second.get() : nullptr);
    site_.waits.clear();
    pass.steps[pass.next++](pass.values);
  }
  const bool last = pass.next == pass.steps.size();
  if (last) end_pass(run, pass);
  std::move(site_.waits.begin(), site_.waits.end(), std::back_inserter(pass.waits));
  if (!last || !(pass.action.is_compute() || pass.action.is_vocabulary())) return;
  site_.spans.note(span_on(site_.transport.rank(), Lane::Compute, shown), std::move(pass.started), {site_.spans.now()},
                   std::move(pass.waits));
}

}  // namespace panpipe::exec
