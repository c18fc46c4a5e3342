// The multidimensional planning problem: layers with choices (tensor degree, recompute), edges, devices, memory. Numbers are
// doubles in the unit of the input, because the objective is not rounded to picoseconds. Model and source: docs/models/piper.md.
#pragma once

#include <string>
#include <vector>

namespace panpipe::planner::piper {

// One way to run a layer on a tensor-parallel group. Per device, per microbatch.
struct Choice {
  std::string name;  // of the profile, for messages
  bool recompute = false;
  double time = 0;        // forward and backward
  double parameters = 0;  // bytes whose gradient is reduced over replicas
  double in_flight = 0;   // bytes per microbatch in flight
  double fixed = 0;       // bytes independent of microbatches
  // Bytes that an edge carries in addition to its own when it enters or leaves the stage at this layer, indexed like `into` or
  // `out_of` of the layer (Incidence). Empty: none.
  std::vector<double> receive, send;
};

// The entry of such a list at a position.
inline double extra(const std::vector<double>& bytes, std::size_t position) { return bytes.empty() ? 0 : bytes[position]; }

struct Layer {
  std::string name;
  std::vector<std::vector<Choice>> choices;  // indexed like PlanningProblem::degrees; an empty list: the layer lacks this way
};

struct Edge {
  int from = 0, to = 0;
  double bytes = 0;
};

// The fixed parts of the problem, and the ranges searched.
struct PlanningProblem {
  // The ways to run a stage: tensor degrees, ascending. One that stands twice has different choices each time.
  std::vector<int> degrees;
  std::vector<Layer> layers;  // topological order
  std::vector<Edge> edges;    // from < to
  int devices = 1;
  int microbatches = 1;  // per step, over all replicas
  double memory = 0;     // bytes of a device that a plan may fill
  double bandwidth = 0;  // bytes per second; may be infinite
  int least_data = 1;    // data-parallel degrees within [least, most] that divide the microbatches; most 0 = no limit
  int most_data = 0;
  int stages = 0;                // exact number; 0 = any
  double recompute_reserve = 0;  // additional bytes of a stage that recomputes anything: one recomputed block
  bool contiguous = false;       // a stage is a run of the layers in their order, as in a plan
};

// The data-parallel degrees that may be chosen: every replica works on equally many microbatches.
std::vector<int> data_degrees_of(const PlanningProblem& problem);

struct StageChoice {
  std::vector<int> layers;  // ascending
  int data = 1;
  int tensor = 1;
  int way = 0;              // its position in PlanningProblem::degrees
  std::vector<int> choice;  // per entry of `layers`: index into its choices of that way
  int in_flight = 1;        // microbatches that a replica holds
  double load = 0;          // time per microbatch of the whole step
  double memory = 0;        // bytes on a device
};

// The choices that the layer number `member` of `stage` has, and the one that it takes.
inline const std::vector<Choice>& choices_of(const PlanningProblem& problem, const StageChoice& stage, std::size_t member) {
  return problem.layers[stage.layers[member]].choices[stage.way];
}
const Choice& choice_of(const PlanningProblem& problem, const StageChoice& stage, std::size_t member);

// Computes loads and memory of a plan whose stages state layers, degrees and choices, as an independent check of the search. Sets
// in_flight, load and memory of every stage; returns the largest load.
double evaluate(const PlanningProblem& problem, std::vector<StageChoice>& stages);

// The synchronous step of an evaluated plan, first order: the slowest stage processes all microbatches, the others fill and
// drain. microbatches * max load + sum of (data * load) - max of (data * load).
double step_time(const PlanningProblem& problem, const std::vector<StageChoice>& stages);

// The edges that enter and leave each layer, in the order of PlanningProblem::edges.
struct Incidence {
  std::vector<std::vector<int>> into, out_of;
  explicit Incidence(const PlanningProblem& problem);
};

}  // namespace panpipe::planner::piper
