// What the exporters ask of a plan alike. Internal to this folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "jobs/export.hpp"

namespace panpipe::jobs {

// The family whose order this is, whatever the plan calls it, and the microbatches of a turn where they are not the family's own
// choice; nullopt where the order is none of `names`.
struct KnownOrder {
  std::string family;
  int turn = 0;  // interleaved-1f1b: 0 = as the family chooses
};
std::optional<KnownOrder> known_order(const Schedule& schedule, const std::vector<std::string_view>& names);

// Layers of each stage, in the order of the forward path; the embedding is with the first, the loss with the last. InputError
// where a stage begins or ends inside a layer, or the units are no layers.
std::vector<int> layers_of_stages(const ExportRequest& request, std::string_view trainer);

// "estimated by panpipe ...": lines of a head, each with `mark` ("# ") in front. Control characters of names become blanks: what
// a scenario holds must not become a line of the file.
std::string head_text(const ExportRequest& request, std::string_view what, const ExportedJob& job, const std::string& mark);

// One mode for all stages; where they differ, the fullest, and `cannot` says so.
Recompute recompute_of(const Plan& plan, ExportedJob& job);

// What every export has to say: keys of the scenario that no exporter reads, and the devices; each phrase becomes one line. To be
// called before the head.
void tell_of_the_rest(const ExportRequest& request, ExportedJob& job);

// The plan's devices in the order in which the trainer numbers its ranks; else `cannot` says so.
void tell_of_devices(const Plan& plan, ExportedJob& job);

// Rules of the optimizer and of training that trainers take as numbers: `cannot` says which groups and patterns are left out.
void tell_of_optimizer(const Scenario& scenario, ExportedJob& job);

// Whether rank r of replica d is the (d x pipeline + r)-th: the ranks of a replica side by side.
bool replicas_in_a_row(const Plan& plan);

// Ranks that share a sample's sequence: what the plan's devices are more than its other degrees.
int context_ranks(const Plan& plan);

// Steps that the scenario's `run` asks for, rounded up; nullopt where it has none.
std::optional<std::int64_t> steps_of_run(const ExportRequest& request);

// "torchrun --nnodes 4 --nproc-per-node 8", the nodes as the cluster has them.
std::string launch_text(const ExportRequest& request);

// A number with the fewest digits that read back the same: 1e-05, 0.001.
std::string number_text(double value);

}  // namespace panpipe::jobs
