#include "costmodel/profile/load_profiles.hpp"

#include "base/error.hpp"

namespace panpipe {
namespace {

void take_missing(Profile& sum, Profile&& more) {
  sum.units.insert(sum.units.end(), more.units.begin(), more.units.end());
  if (sum.transfers.empty()) sum.transfers = std::move(more.transfers);
  if (sum.collectives.empty()) sum.collectives = std::move(more.collectives);
  if (sum.optimizer.name.empty()) sum.optimizer = std::move(more.optimizer);
  if (!(sum.memory_bandwidth > Bandwidth(0))) sum.memory_bandwidth = more.memory_bandwidth;
  if (!(sum.launch > Duration(0))) sum.launch = more.launch;
}

}  // namespace

Profile load_profiles(const std::vector<std::string>& paths) {
  Profile sum;
  std::vector<Diagnostic> faults;
  bool first = true;
  for (const std::string& path : paths) {
    try {
      Profile profile = load_profile(path);
      if (first)
        sum = std::move(profile);
      else
        take_missing(sum, std::move(profile));
      first = false;
    } catch (const InputError& error) {
      faults.insert(faults.end(), error.diagnostics().begin(), error.diagnostics().end());
    }
  }
  if (!faults.empty()) throw InputError(faults);
  return sum;
}

}  // namespace panpipe
