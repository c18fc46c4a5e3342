// A profile as one rank sees it: identical preparation on every rank, and measurements by all ranks together.
#pragma once

#include "costmodel/prediction/experiment.hpp"
#include "costmodel/profile/profile.hpp"
#include "exec/engine/profile/operator_profiler.hpp"
#include "exec/engine/stage_layout.hpp"
#include "exec/engine/transport/transport.hpp"
#include "exec/launch/profile_request.hpp"

namespace panpipe::exec {

// Identical on every rank and immutable, so that threads of one process share it.
struct PreparedProfile {
  // Reads the scenario. Throws InputError for measured layers, which are already times.
  explicit PreparedProfile(ProfileRequest asked);

  ProfileRequest request;
  Experiment experiment;
  StageLayout layout;  // every unit is a stage

  const OperatorGraph& graph() const { return *experiment.workload.graph; }
};

// Call it once per rank (process or thread), on its thread. Rank 0 gets the profile without provenance, the others an empty one.
// `operators` receives rank 0's operators if they were requested.
Profile profile_rank(const PreparedProfile& job, Transport& transport, std::vector<MeasuredOperator>* operators = nullptr);

}  // namespace panpipe::exec
