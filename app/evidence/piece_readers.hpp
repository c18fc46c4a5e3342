// The readers of evidence, one for each kind of file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "costmodel/prediction/given_evidence.hpp"

namespace panpipe::app {

// The scenario in its file, without overrides and plan: what was measured before something else is asked.
class StatedJob {
 public:
  explicit StatedJob(const Scenario& scenario);

  // Null with the reason in `why`: the scenario states no whole plan, or is known only with what was overridden.
  const Experiment* experiment();
  const Plan* plan();
  const std::string& why() const { return why_; }
  const Scenario& asked() const { return asked_; }

 private:
  const Scenario& asked_;
  bool tried_ = false;
  std::unique_ptr<Experiment> experiment_;
  std::optional<Plan> plan_;
  std::string why_;
};

// The error of a file that a piece of evidence names, with the key that names it: "evidence[0].job".
InputError named_by(const InputError& error, const Scenario& scenario, const std::string& key);

// Throw InputError for a file that cannot be read.
std::vector<GivenPiece> log_pieces(const EvidenceRequest& request, StatedJob& job);
std::vector<GivenPiece> result_pieces(const EvidenceRequest& request, StatedJob& job);
std::vector<GivenPiece> run_pieces(const EvidenceRequest& request);
std::vector<GivenPiece> trace_pieces(const EvidenceRequest& request, StatedJob& job);
std::vector<GivenPiece> nccl_pieces(const EvidenceRequest& request, const std::string& text, const Scenario& scenario);
std::vector<GivenPiece> collective_pieces(const EvidenceRequest& request, const Scenario& scenario);
std::vector<GivenPiece> profile_pieces(const EvidenceRequest& request, const Scenario& scenario);
std::vector<GivenPiece> device_pieces(const EvidenceRequest& request, const Scenario& scenario);

// The directions in which the file of `panpipe measure-device` bears on this scenario's steps.
std::vector<Direction> directions_of_device(const Scenario& scenario);

// A measured step of a plan: sets machine, trainer and wiring, and adds the observation. `rolling`: the measured time is the
// period of steps without a barrier. Returns ln(measured / predicted).
double add_step(GivenPiece& piece, const Experiment& experiment, const Plan& plan, double measured_s);

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
