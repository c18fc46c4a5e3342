#include "present/picture/schedule_picture.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text/counted.hpp"
#include "schedule/activations.hpp"

namespace panpipe::present {
namespace {

// For each stage its place among its rank's stages, in the order in which a microbatch comes through them.
std::vector<int> chunks_of(const Schedule& schedule) {
  std::vector<int> seen(schedule.ranks, 0), chunk(static_cast<std::size_t>(schedule.stages), 0);
  for (const auto& chain : schedule.chains)
    for (const int stage : chain) {
      const auto rank = static_cast<std::size_t>(schedule.stage_to_rank[stage]);
      chunk[stage] = seen[rank]++;
    }
  return chunk;
}

std::string stages_of(const Schedule& schedule, int rank) {
  std::vector<int> stages;
  for (int stage = 0; stage < schedule.stages; ++stage)
    if (schedule.stage_to_rank[stage] == rank) stages.push_back(stage);
  return fmt::format("{} {}", stages.size() == 1 ? "stage" : "stages", fmt::join(stages, ", "));
}

PictureLane lane_of(const Schedule& schedule, const ScheduleEvaluation& evaluation, const std::vector<int>& chunks, int rank) {
  PictureLane lane;
  lane.name = fmt::format("rank {}", rank);
  lane.detail = stages_of(schedule, rank);
  const auto& row = schedule.order[rank];
  int group = -1;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const Action& action = row[i];
    const auto [start, end] = evaluation.times[rank][i];
    if (action.group_size > 1) ++group;
    const PictureSpan drawn{start, end, action, ""};
    if (is_copy(action.kind)) lane.stripes.push_back({drawn, StripKind::Copy, 0});
    if (action.is_compute() || action.is_vocabulary())
      lane.boxes.push_back({drawn, chunks[action.stage], action.group == GroupKind::None ? -1 : group});
  }
  return lane;
}

}  // namespace

Picture picture_of(const Schedule& schedule, const ScheduleEvaluation& evaluation) {
  Picture picture;
  picture.title = fmt::format(
      "{}: {}, {}, {}", schedule.name, counted(schedule.ranks, "rank"), counted(schedule.stages, "stage"),
      schedule.microbatches == 1 ? std::string("1 microbatch") : fmt::format("{} microbatches", schedule.microbatches));
  const int peak = *std::max_element(evaluation.peak_activations.begin(), evaluation.peak_activations.end());
  picture.subtitle =
      fmt::format("makespan {:.6g}; bubble {:.1f} % of the step, {:.1f} % of the ranks' spans; at most {} held on a rank",
                  evaluation.makespan, 100 * evaluation.bubble_step, 100 * evaluation.bubble_span, counted(peak, "activation"));
  picture.end = evaluation.makespan;
  picture.memory_name = "activations held";
  const std::vector<int> chunks = chunks_of(schedule);
  for (const int chunk : chunks) picture.chunks = std::max(picture.chunks, chunk + 1);
  const std::vector<ActivationCurve> curves = activation_curves(schedule, evaluation);
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    picture.lanes.push_back(lane_of(schedule, evaluation, chunks, rank));
    PictureLane& lane = picture.lanes.back();
    const ActivationCurve& curve = curves[rank];
    for (const auto& [at, level] : curve.levels) lane.memory.emplace_back(at, level);
    lane.peak = curve.peak;
    lane.peak_text = fmt::format("{:g}", curve.peak);
  }
  return picture;
}

}  // namespace panpipe::present
