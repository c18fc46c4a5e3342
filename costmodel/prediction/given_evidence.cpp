#include "costmodel/prediction/given_evidence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/input/shipped.hpp"

namespace panpipe {
namespace {

constexpr double kOutside = 0.005;  // on either side: 99 % lie inside
// One piece alone is measured against the prior, which knows only what other machines did: it may be far out and right.
constexpr double kOutsideAlone = 0.0005;
// So many times as long as predicted is always possible: one publisher's steps were 2.8 times (kempner_moe, docs/accuracy.md).
constexpr double kPossiblySlower = 3;

std::vector<ComparedStep> observations_of(const std::vector<const GivenPiece*>& pieces, const GivenPiece* without = nullptr) {
  std::vector<ComparedStep> all;
  for (const GivenPiece* piece : pieces)
    if (piece != without)
      std::copy_if(piece->observations.begin(), piece->observations.end(), std::back_inserter(all),
                   [](const ComparedStep& observation) { return std::isfinite(observation.off); });
  // Sums do not depend on the order in which pieces are named.
  std::stable_sort(all.begin(), all.end(), [](const ComparedStep& a, const ComparedStep& b) {
    return std::tie(a.off, a.scatter, a.sensitivity, a.parallel) < std::tie(b.off, b.scatter, b.sensitivity, b.parallel);
  });
  return all;
}

double distance(const ComparedStep& observation, const StepPosterior& posterior, double outside) {
  const StepDistribution expected = posterior.distribution_of(observation);
  const double median = expected.quantile(0.5), side = observation.off - median;
  return std::abs(side) / std::abs(expected.quantile(side < 0 ? outside : 1 - outside) - median);
}

// The median over the observations of a piece.
double distance(const GivenPiece& piece, const std::vector<ComparedStep>& others, const UncertaintyPrior& prior) {
  std::map<StepClass, StepPosterior> posteriors;
  std::vector<double> distances;
  for (const ComparedStep& observation : piece.observations) {
    const StepPosterior& posterior = posteriors.try_emplace(observation.of, prior, others, observation.of).first->second;
    distances.push_back(distance(observation, posterior, others.empty() ? kOutsideAlone : kOutside));
  }
  std::nth_element(distances.begin(), distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2), distances.end());
  return distances[distances.size() / 2];
}

// Whether a piece can be a measurement of such a step at all.
bool is_possible(const GivenPiece& piece, const UncertaintyPrior& prior) {
  const auto may_be_slower = [](const ComparedStep& observation) {
    return observation.off > 0 && observation.off < std::log(kPossiblySlower);
  };
  return std::all_of(piece.observations.begin(), piece.observations.end(), may_be_slower) || distance(piece, {}, prior) <= 1;
}

std::string joined_by(const std::string& wiring) {
  if (wiring == "bridge" || wiring == "switch") return "an NVLink " + wiring;
  return wiring == "host" ? "the host's memory" : wiring == "peer-pcie" ? "PCIe" : wiring;
}

// Why a piece does not bear on the step; empty: it does.
std::string out_of_scope(const GivenPiece& piece, const StepTraits& step) {
  if (!piece.left_out.empty()) return piece.left_out;
  if (!piece.machine.empty() && piece.machine != step.machine)
    return fmt::format("it was measured on {}, and this step is on {}", piece.machine, step.machine);
  if (!piece.trainer.empty() && trainer_family(piece.trainer) != trainer_family(step.framework))
    return fmt::format("it was measured with {0}, and this step is of {1}; 'framework: {{name: {0}}}' predicts it as {0}",
                       piece.trainer, step.framework);
  if (!piece.wiring.empty() && !step.wiring.empty() && piece.wiring != step.wiring)
    return fmt::format("its devices were joined by {}, and these are by {}", joined_by(piece.wiring), joined_by(step.wiring));
  if (piece.observations.empty()) return "it holds nothing that bears on a step";
  return "";
}

// Leaves out the piece that lies farthest from what the others expect, until none contradicts them.
std::optional<const GivenPiece*> contradicting(const std::vector<const GivenPiece*>& counting, const UncertaintyPrior& prior) {
  if (counting.size() < 2) return std::nullopt;  // nothing to contradict
  double farthest = 1;
  std::optional<const GivenPiece*> found;
  for (const GivenPiece* piece : counting) {
    const double away = distance(*piece, observations_of(counting, piece), prior);
    if (away > farthest || (found && away == farthest && piece->file > (*found)->file)) farthest = away, found = piece;
  }
  return found;
}

// Two pieces that are wrong alike agree: each must be possible by itself.
constexpr const char* kImpossible =
    "it lies outside all that was ever measured of such steps: is it of this machine and job, and in seconds a step?";
constexpr const char* kContradicts = "it contradicts the other pieces; if it is right, leave those out";

}  // namespace

std::string trainer_family(const std::string& framework) {
  static const std::vector<std::string> presets = shipped_names("frameworks");
  std::string family = framework;
  for (const std::string& preset : presets)
    if (preset.size() < family.size() && framework.starts_with(preset + "-")) family = preset;
  return family;
}

double half_width(const StepDistribution& distribution) {
  return std::expm1((distribution.quantile(0.9) - distribution.quantile(0.1)) / 2);
}

std::vector<double> contradictions(const std::vector<ComparedStep>& observations, const UncertaintyPrior& prior) {
  std::vector<double> distances;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    std::vector<ComparedStep> others = observations;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    distances.push_back(distance(observations[i], StepPosterior(prior, others, observations[i].of), kOutside));
  }
  return distances;
}

WeighedEvidence weigh(const GivenEvidence& given, const UncertaintyPrior& prior, const StepTraits& step) {
  WeighedEvidence weighed;
  std::vector<const GivenPiece*> counting;
  for (const GivenPiece& piece : given.pieces) {
    std::string left_out = out_of_scope(piece, step);
    if (left_out.empty() && !is_possible(piece, prior)) left_out = kImpossible;
    weighed.pieces.push_back({piece.file, piece.kind, 0, 0, piece.what, std::move(left_out)});
    if (weighed.pieces.back().left_out.empty()) counting.push_back(&piece);
  }
  while (const auto contradicts = contradicting(counting, prior)) {
    weighed.pieces[static_cast<std::size_t>(*contradicts - given.pieces.data())].left_out = kContradicts;
    std::erase(counting, *contradicts);
  }
  std::vector<const GivenPiece*> so_far;
  double width = half_width(StepPosterior(prior, {}, step.of).distribution(step));
  for (std::size_t p = 0; p < given.pieces.size(); ++p) {
    EvidencePiece& piece = weighed.pieces[p];
    piece.half_width_before = width;
    if (piece.left_out.empty()) {
      so_far.push_back(&given.pieces[p]);
      width = half_width(StepPosterior(prior, observations_of(so_far), step.of).distribution(step));
    }
    piece.half_width_after = width;
  }
  weighed.counting = observations_of(counting);
  return weighed;
}

}  // namespace panpipe
