// Forwards without their backwards: those of an evaluation, and those that run again.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "exec/engine/worker.hpp"

namespace panpipe::exec {

// Forwards that ran with weights that were taken back. What others sent of theirs and no forward here has read arrives once more.
void Worker::forget_forwards(StepResult& result) {
  const auto entries = [&](int position) {
    std::vector<Action> forwards = row_of_step(plan_.schedule, position, step_, true, true).order;
    forwards.resize(ahead_[static_cast<std::size_t>(position)]);
    return forwards;
  };
  const std::vector<Action> own = entries(position_);
  for (std::size_t index = 0; index < layout_.messages.size(); ++index) {
    const Message& message = layout_.messages[index];
    const int from = plan_.schedule.stage_to_rank[static_cast<std::size_t>(message.from)];
    if (plan_.schedule.stage_to_rank[static_cast<std::size_t>(message.to)] != position_ || from == position_) continue;
    for (const Action& made : entries(from)) {
      if (made.stage != message.from) continue;
      const auto reads = [&](const Action& action) {
        return action.stage == message.to && layout_.slice_index(action) == layout_.slice_index(made);
      };
      if (std::none_of(own.begin(), own.end(), reads)) messages_.drop(static_cast<int>(index), layout_.slice_index(made));
    }
  }
  messages_.drop_local();
  for (auto& [index, stage] : stages_) stage->clear();
  sequences_.clear();
  noted_.clear();
  result.loss_sum = 0;
  if (copies_) copies_->refresh();  // of the weights that stand
}

// The order's forward passes alone: they depend on one another as in the whole order, so they end as it does. No two are woven,
// and no fault is looked for.
double Worker::evaluate(std::int64_t round, const DataSource& data) {
  const DataSource training = std::exchange(data_, data);
  PANPIPE_CHECK(idle_, "no pass is under way when an evaluation starts");
  const std::int64_t first_sample = std::exchange(options_.first_sample, 0), step = std::exchange(step_, round);
  row_ = {};
  std::vector<Action> order;
  std::vector<std::size_t> in_plan;
  for (std::size_t index = 0; index < plan_.schedule.order[position_].size(); ++index) {
    const Action& action = plan_.schedule.order[position_][index];
    if (action.kind != ActionKind::F && action.kind != ActionKind::E && action.kind != ActionKind::S) continue;
    order.push_back(action);
    in_plan.push_back(index);
  }
  const auto ahead = static_cast<std::size_t>(std::max(1, options_.receives_ahead));
  std::vector<std::shared_ptr<const SequenceSlice>> slices;  // later slices attend to earlier ones
  std::vector<std::pair<at::Tensor, double>> losses;         // with their shares; read when the passes are over
  StepResult unreported;
  Running running;
  result_ = &unreported;
  running_ = &running;
  transport_.settle(options_.device, options_.deadline, "the start of an evaluation");
  spans_.begin(order.size() * (1 + layout_.messages.size()) + 64);
  if (copies_) copies_->refresh();
  if (vocabulary_) vocabulary_->begin_step(true);
  for (std::size_t a = 0; a < order.size(); ++a) {
    for (std::size_t next = a; next < std::min(a + ahead, order.size()); ++next) messages_.post(order[next]);
    const Action& action = order[a];
    action_ = to_text(action);
    transport_.set_action(fmt::format("{} of an evaluation", action_));
    if (vocabulary_) vocabulary_->before(in_plan[a]);
    if (action.is_vocabulary()) {
      vocabulary_->run(action, 1, running.waits);
      vocabulary_->after();
      continue;
    }
    SegmentedStage& stage = stage_of(action);
    groups_.set_action(action);
    slices.push_back(slice_of(action));
    const std::int64_t sample = sample_of(action);
    CallContext context = context_of(action, sample, slices.back());
    context.versions = nullptr;  // the latest
    context.evaluates = true;
    if (options_.before_evaluated) options_.before_evaluated(action.stage);
    const Steps steps = stage.evaluate(
        layout_.slice_index(action), context, [&] { return take_inputs(action, sample); },
        [&](const std::vector<at::Tensor>& outputs) {
          messages_.give_outputs(action, stage.outputs(), outputs, true);
          if (VocabularyParts* parts = behind_last(action))
            parts->give_hidden(action.microbatch, outputs[position_in(stage.outputs(), parts->tensors().hidden)]);
          if (!layout_.stages[action.stage].has_loss) return;
          const double share = loss_share(action);
          if (share > 0 && groups_.member(Among::Tensor) == 0)
            losses.emplace_back(outputs[position_in(stage.outputs(), graph_.loss)], share);
        });
    for (const auto& one : steps) one();
    if (vocabulary_) vocabulary_->after();
  }
  action_ = "the end of an evaluation, waiting for its sends to be taken";
  if (vocabulary_) vocabulary_->finish();
  messages_.finish();
  action_ = "the end of an evaluation";
  transport_.settle(options_.device, options_.deadline, action_);
  for (const auto& [loss, share] : losses) unreported.loss_sum += share * loss.item<double>();
  if (vocabulary_) unreported.loss_sum += vocabulary_->evaluated();
  masks_->clear();
  sequences_.clear();
  groups_.move_waits_to(running.waits);
  partner_waits_.clear();
  if (options_.gate != nullptr) options_.gate->move_waits_to(running.waits);
  spans_.take();  // like the waits, no part of a measured step
  result_ = nullptr;
  running_ = nullptr;
  data_ = training;
  options_.first_sample = first_sample;
  step_ = step;
  return unreported.loss_sum;
}

}  // namespace panpipe::exec
