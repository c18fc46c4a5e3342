#include "planner/family_form.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "schedule/find_family.hpp"

namespace panpipe::planner {
namespace {

constexpr int kExampleRanks = 4;
constexpr int kExampleStages = 2;  // a rank, where an option states how many

bool has_choice_of_stages(const ScheduleFamily& family) { return default_option(family, "stages_per_rank").has_value(); }

ScheduleOptions options_for(const ScheduleFamily& family, int stages_per_rank) {
  if (!has_choice_of_stages(family)) return {};
  return {{"stages_per_rank", std::to_string(stages_per_rank)}};
}

// With three microbatches a rank or more an order has all passes of its family. One that is searched for is not needed here.
Schedule example_of(const ScheduleFamily& family) {
  const ScheduleOptions options = options_for(family, kExampleStages);
  if (family.searched()) return make_schedule(family.name, 2, 1, options);
  for (int ranks = kExampleRanks; ranks <= 2 * kExampleRanks; ++ranks)
    for (int microbatches = 3 * ranks; microbatches <= 6 * ranks; ++microbatches)
      if (family.refused(ranks, microbatches, options).empty()) return make_schedule(family.name, ranks, microbatches, options);
  PANPIPE_CHECK(false, "a schedule family has no order of any size that planners look at");
}

StagePlacement placement_of(const Schedule& schedule) {
  if (schedule.chains.size() != 1 || schedule.splits != 1) return StagePlacement::Opaque;
  bool loop = true, vee = true;
  for (int s = 0; s < schedule.stages; ++s) {
    const int rank = schedule.stage_to_rank[s], along = s % schedule.ranks, back = schedule.ranks - 1 - along;
    if (schedule.chains.front()[s] != s) return StagePlacement::Opaque;
    loop = loop && rank == along;
    vee = vee && rank == (s / schedule.ranks % 2 == 0 ? along : back);
  }
  if (loop) return schedule.stages == schedule.ranks ? StagePlacement::Line : StagePlacement::Loop;
  return vee ? StagePlacement::Vee : StagePlacement::Opaque;
}

FamilyForm form_of(const ScheduleFamily& family) {
  const Schedule example = example_of(family);
  FamilyForm form{&family, family.name, family.searched() ? StagePlacement::Opaque : placement_of(example)};
  form.chunks = has_choice_of_stages(family) ? 0 : static_cast<int>(example.chains.front().size()) / example.ranks;
  form.split = form.whole = form.woven = false;
  for (const std::vector<Action>& row : example.order) {
    for (const Action& action : row) {
      form.split = form.split || action.kind == ActionKind::I;
      form.whole = form.whole || action.kind == ActionKind::B;
      form.woven = form.woven || action.group != GroupKind::None;
      if (action.kind > ActionKind::B) form.placement = StagePlacement::Opaque;  // it recomputes, copies, states its messages
    }
  }
  return form;
}

}  // namespace

ScheduleOptions FamilyForm::options(int stages_per_rank) const {
  return family == nullptr ? ScheduleOptions() : options_for(*family, stages_per_rank);
}

bool FamilyForm::exists(int ranks, int stages_per_rank, int microbatches) const {
  if (family == nullptr) return true;
  if (open_chunks() ? stages_per_rank < 1 : stages_per_rank != chunks) return false;
  return family->refusal == nullptr || family->refusal(ranks, microbatches, options(stages_per_rank)).empty();
}

const std::vector<FamilyForm>& forms() {
  static const std::vector<FamilyForm> table = [] {
    std::vector<FamilyForm> made;
    for (const ScheduleFamily& family : schedule_families())
      if (family.planned) made.push_back(form_of(family));
    made.emplace_back();
    return made;
  }();
  return table;
}

int form_named(std::string_view name) {
  const auto& table = forms();
  const auto found = std::find_if(table.begin(), table.end(), [&](const FamilyForm& form) { return form.name == name; });
  return found == table.end() ? -1 : static_cast<int>(found - table.begin());
}

}  // namespace panpipe::planner
