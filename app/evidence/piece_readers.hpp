// The readers of evidence, one for each kind of file.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "costmodel/prediction/given_evidence.hpp"

namespace panpipe::app {

struct PlannedJob {
  Experiment experiment;
  Plan plan;

  explicit PlannedJob(Scenario scenario) : experiment(std::move(scenario)), plan(experiment.plan("")) {}
};

// The scenario in its file, without overrides and plan: what was measured before something else is asked.
class StatedJob {
 public:
  explicit StatedJob(const Scenario& scenario) : asked_(scenario) {}

  // Null with the reason in `why`: the scenario states no whole plan, or is known only with what was overridden.
  const std::shared_ptr<const PlannedJob>& planned();
  const std::string& why() const { return why_; }
  const Scenario& asked() const { return asked_; }

 private:
  const Scenario& asked_;
  bool tried_ = false;
  std::shared_ptr<const PlannedJob> planned_;
  std::string why_;
};

// The error of a file that a piece of evidence names, with the key that names it: "evidence[0].job".
InputError named_by(const InputError& error, const Scenario& scenario, const std::string& key);

// Throw InputError for a file that cannot be read. The caller sets file and kind of the pieces.
using PieceReader = std::vector<GivenPiece>(const EvidenceRequest& request, StatedJob& job);
PieceReader log_pieces, result_pieces, run_pieces, trace_pieces, nccl_pieces, collective_pieces, profile_pieces, device_pieces;

// The directions in which the file of `panpipe measure-device` bears on this scenario's steps.
std::vector<Direction> directions_of_device(const Scenario& scenario);

// A measured step of a plan: sets machine, trainer and wiring, and adds the observation. `rolling`: the measured time is the
// period of steps without a barrier. Returns ln(measured / predicted).
double add_step(GivenPiece& piece, const PlannedJob& job, double measured_s);

// How far another operator, size or kind of collective than the measured ones lies from their deviation: assumed. Of a few
// products, or of the kinds of collectives on one machine, the errors of predictions differ by so much.
constexpr double kOtherWork = 0.1;

// A measurement that is no step, and that all lies in one direction.
ComparedStep in_direction(Direction direction, double off, double scatter = kOtherWork);

// Adds the mean of ln(measured / predicted) over measurements of one kind, with what they scatter; nothing for none.
// `uncertainty`: of each alike, relative.
void add_measurements(GivenPiece& piece, const std::string& what, Direction direction, const std::vector<double>& offs,
                      double uncertainty = 0);

// The name of a scenario's devices where they are of one type; its machine for pieces that are of no other.
const DeviceType* only_type(const Scenario& scenario);

// The machine of a piece by the driver's name of its device: the scenario's where that is its device, or is not known.
std::string machine_named(const std::string& driver_name, const Scenario& scenario);

// "12 % longer than predicted", of ln(measured / predicted).
std::string longer_text(double off);

}  // namespace panpipe::app
