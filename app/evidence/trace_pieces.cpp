// A trace of PyTorch's profiler as evidence: times of kernels by group. The step itself is no evidence, because the profiler
// slows the host.
#include <fmt/format.h>

#include <cmath>

#include "app/evidence/piece_readers.hpp"
#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "jobs/kineto/trace_compare.hpp"

namespace panpipe::app {
namespace {

using jobs::KernelGroup;

constexpr double kLeastShare = 0.005;  // of the step, of a group that counts

void add_group(GivenPiece& piece, const std::string& what, Direction direction, double measured_us, double predicted_us,
               double step_us) {
  if (measured_us < kLeastShare * step_us || predicted_us < kLeastShare * step_us) return;
  add_measurements(piece, what, direction, {std::log(measured_us / predicted_us)});
}

}  // namespace

std::vector<GivenPiece> trace_pieces(const EvidenceRequest& request, StatedJob& job) {
  GivenPiece piece;
  const Cluster& cluster = job.asked().cluster;
  const jobs::KinetoTrace trace = jobs::read_kineto_trace(request.file, cluster.node.front().devices);
  const PlannedJob* planned = job.planned().get();
  if (planned == nullptr) {
    piece.left_out = job.why() + ", so it is not known what was traced";
    return {piece};
  }
  const auto& [experiment, plan] = *planned;
  const auto devices = static_cast<int>(plan.devices.size());
  if (trace.world > 0 && trace.world != devices) {
    piece.left_out = fmt::format("it states {} ranks, and this scenario has {}", trace.world, devices);
    return {piece};
  }
  const jobs::TraceSummary seen = jobs::summary_of(trace, 0);
  const Prediction prediction = predict(experiment, plan);
  const jobs::PredictedGroups expected =
      jobs::predicted_groups(experiment, plan, prediction, trace.rank >= 0 ? trace.rank : plan.devices.front());
  const auto both = [&](std::initializer_list<KernelGroup> groups, const auto& of) {
    double sum = 0;
    for (const KernelGroup group : groups) sum += of[at(group)];
    return sum;
  };
  const auto add = [&](const char* what, Direction direction, std::initializer_list<KernelGroup> groups) {
    add_group(piece, what, direction, both(groups, seen.group_us), both(groups, expected.group_us), expected.step_us);
  };
  add("products", Direction::Products, {KernelGroup::Products});
  add("attention", Direction::Attention, {KernelGroup::Attention});
  add("memory traffic", Direction::MemoryTraffic, {KernelGroup::Elementwise, KernelGroup::Normalization, KernelGroup::Optimizer});
  piece.machine = prediction.traits.machine;
  piece.trainer = prediction.traits.framework;
  return {piece};
}

}  // namespace panpipe::app
