// The sites of a cost model (cost_model.hpp). Internal to this folder.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "costmodel/cost/cost_model.hpp"
#include "costmodel/cost/occupancy.hpp"

namespace panpipe {

struct Site {
  int type = 0;
  PassGroups groups{};                                // of one of the devices with equal costs
  std::array<GroupNetwork, kAmongPasses> networks{};  // one per group

  const GroupNetwork& network(Among among) const { return networks[index_of(among)]; }
  std::optional<WorkloadCost> cost{};  // computed on demand
};

class Sites {
 public:
  // Creates one site per type of the cluster, with the best-connected groups of such devices. A search that knows only types
  // thereby gets a lower bound.
  Sites(const Scenario& scenario, const Workload& workload);

  bool is_type(int site) const { return site < static_cast<int>(types_.size()); }
  // References stay valid. Hold the mutex while using any site other than those of types.
  Site& at(int site);
  int of_form(const std::vector<int>& form) const;  // -1: unknown
  // Stores the site for groups of this form: a known site of the same type whose collectives have the times in `probe`, else
  // `site`.
  int add(const std::vector<int>& form, const std::vector<double>& probe, Site site);
  int remember(const std::vector<int>& form, int site) { return forms_[form] = site; }
  std::recursive_mutex& mutex() { return mutex_; }
  // Modules per operator, relative to a model without adapters.
  double hooked_modules() const { return hooked_modules_; }

 private:
  std::vector<Site> types_;
  std::deque<Site> others_;
  std::map<std::vector<int>, int> forms_;
  std::map<std::pair<int, std::vector<double>>, int> probes_;
  std::recursive_mutex mutex_;
  double hooked_modules_ = 1;
};

}  // namespace panpipe
