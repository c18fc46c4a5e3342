// A profile from a rank's point of view: what every rank prepares alike, and what all ranks measure together.
#pragma once

#include "costmodel/prediction/experiment.hpp"
#include "costmodel/profile/profile.hpp"
#include "exec/engine/profile/operator_profiler.hpp"
#include "exec/engine/stage_layout.hpp"
#include "exec/engine/transport/transport.hpp"
#include "exec/launch/profile_request.hpp"

namespace panpipe::exec {

// The same on every rank, and immutable: threads of one process share it.
struct PreparedProfile {
  // Reads the scenario. InputError: measured layers, which are times already.
  explicit PreparedProfile(ProfileRequest asked);

  ProfileRequest request;
  Experiment experiment;
  StageLayout layout;  // every unit a stage of its own

  const OperatorGraph& graph() const { return *experiment.workload.graph; }
};

// Called once per rank (process or thread), on its thread. Rank 0 gets the profile, without provenance; the others an empty one.
// `operators`: gets rank 0's operators too, where they were asked for.
Profile profile_rank(const PreparedProfile& job, Transport& transport, std::vector<OperatorRow>* operators = nullptr);

}  // namespace panpipe::exec
