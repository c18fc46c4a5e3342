// The sites that a cost model knows (cost_model.hpp). Internal to this folder.
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
  PassGroups groups{};                                // of one of the devices that are alike
  std::array<GroupNetwork, kAmongPasses> networks{};  // of each

  const GroupNetwork& network(Among among) const { return networks[index_of(among)]; }
  std::optional<WorkloadCost> cost{};  // made on demand
};

class Sites {
 public:
  // One for each of the cluster's types: with the best wired groups of such devices, so that a search that knows no more than
  // types has a lower bound.
  Sites(const Scenario& scenario, const WorkloadShape& shape);

  bool is_type(int site) const { return site < static_cast<int>(types_.size()); }
  // A reference stays good. All but those of types only while the mutex is held.
  Site& at(int site);
  int of_form(const std::vector<int>& form) const;  // -1: not known
  // Remembers where groups of a form are: where groups of this type are whose collectives take what `probe` says, else `site`.
  int add(const std::vector<int>& form, const std::vector<double>& probe, Site site);
  int remember(const std::vector<int>& form, int site) { return forms_[form] = site; }
  std::recursive_mutex& mutex() { return mutex_; }

 private:
  std::vector<Site> types_;
  std::deque<Site> others_;
  std::map<std::vector<int>, int> forms_;
  std::map<std::pair<int, std::vector<double>>, int> probes_;
  std::recursive_mutex mutex_;
};

}  // namespace panpipe
