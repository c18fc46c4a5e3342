// What the host launches for units. Internal to this folder.
#pragma once

#include <cstddef>
#include <vector>

#include "costmodel/cost/unit_template.hpp"
#include "costmodel/profile/calibration.hpp"
#include "costmodel/profile/framework.hpp"

namespace panpipe {

// Launches of a unit without those that `UnitHost` adds for experts.
struct Launches {
  int forward = 0, backward = 0;
  bool counted = false;  // the sum of what each operator launches, not a number that operators share
  bool experts = false;  // a stated number, of a layer without experts, which come in addition
  bool operator==(const Launches&) const = default;
};

// A transformer layer launches the kernels counted for its units. If the framework states a number, its units share that in
// proportion to their operators. The few operators before the first layer share it with an embedding, those after the last with
// the loss; other units launch their own. `templates[shape_of[u]]` is unit u's.
std::vector<Launches> launches_of_units(const OperatorGraph& graph, const TensorUse& use, const Framework& framework,
                                        const std::vector<UnitTemplate>& templates, const std::vector<std::size_t>& shape_of);

// What is launched for a pass of one unit, without its collectives.
struct PassLaunches {
  HostWork host;
  double kernels = 0;  // with a pause of the device behind each; products of several experts have one in all
};

class UnitHost {
 public:
  UnitHost(const UnitTemplate& shape, const Launches& launches, const Framework& framework, const Calibration& calibration);

  PassLaunches forward() const { return again(std::vector<bool>(shape_.operators.size(), true)); }
  PassLaunches input_gradient() const;
  PassLaunches weight_gradient() const;
  PassLaunches weight_gradient(const OperatorTime& op) const;
  // The forward's operators for which `runs` holds. If a number is stated, the attention core has a quarter of it and the others
  // share the rest, so that a longer list never launches less. Those of experts come with the operators that launch them.
  PassLaunches again(const std::vector<bool>& runs) const;
  // Kernels of one operator of a pass that launches `all` for `counted` operators: its own if operators are counted.
  double kernels_of(const OperatorTime& op, const PassLaunches& all, int counted) const;
  // The launches of operator `op` behind the wait for numbers of rows.
  PassLaunches behind_wait(const OperatorTime& op) const;

 private:
  void add(const OperatorTime& op, int launched, PassLaunches& pass) const;
  static void add_around(int launched, PassLaunches& pass);
  bool own(const OperatorTime& op) const { return launches_.counted || (launches_.experts && op.for_each_expert); }
  int shared_again(const std::vector<bool>& runs) const;

  const UnitTemplate& shape_;
  const Launches launches_;
  const Framework& framework_;
  Duration expert_launch_{0}, expert_weight_hook_{0};  // on the device's host; 0: the framework states none
};

}  // namespace panpipe
