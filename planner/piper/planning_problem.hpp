// The multidimensional planning problem: layers with choices (tensor degree, recompute), edges, devices, memory. Numbers are
// doubles in the unit of the input: the objective is not put on the picosecond grid. Model and source: docs/models/piper.md.
#pragma once

#include <string>
#include <vector>

namespace panpipe::planner::piper {

// One way to run a layer on a tensor-parallel group. Per device, per microbatch.
struct Choice {
  std::string name;  // of the profile, for messages
  bool recompute = false;
  double time = 0;        // forward and backward
  double parameters = 0;  // bytes whose gradient the replicas reduce
  double in_flight = 0;   // bytes for every microbatch in flight
  double fixed = 0;       // bytes beside them
  // Bytes that an edge carries beyond its own when it leaves the stage at this layer; by position in the problem's `into` or
  // `out_of` of the layer. Empty: none.
  std::vector<double> receive, send;
};

// What such a list holds at a position.
inline double extra(const std::vector<double>& bytes, std::size_t position) { return bytes.empty() ? 0 : bytes[position]; }

struct Layer {
  std::string name;
  std::vector<std::vector<Choice>> choices;  // by index of PlanningProblem::degrees; an empty list: the layer has no such degree
};

struct Edge {
  int from = 0, to = 0;
  double bytes = 0;
};

// What is fixed and what is searched.
struct PlanningProblem {
  std::vector<int> degrees;   // tensor degrees, ascending
  std::vector<Layer> layers;  // topological order
  std::vector<Edge> edges;    // from < to
  int devices = 1;
  int microbatches = 1;  // per step, of all replicas together
  double memory = 0;     // bytes of a device that a plan may fill
  double bandwidth = 0;  // bytes per second; infinite is fine
  int least_data = 1;    // data-parallel degrees within [least, most] that divide the microbatches; most 0 = no limit
  int most_data = 0;
  int stages = 0;                // so many, exactly; 0 = any number
  double recompute_reserve = 0;  // bytes that a stage needs beside once it recomputes anything: one block made again
  // A stage recomputes all of its layers or none. Recompute must not be the faster of a layer's choices then.
  bool one_choice_per_stage = false;
};

struct StageChoice {
  std::vector<int> layers;  // ascending
  int data = 1;
  int tensor = 1;
  std::vector<int> choice;  // of each of `layers`: index into its choices at `tensor`
  int in_flight = 1;        // microbatches that a replica holds
  double load = 0;          // time per microbatch of the whole step
  double memory = 0;        // bytes of a device
};

// The choice that `stage` makes for its layer number `member`.
const Choice& choice_of(const PlanningProblem& problem, const StageChoice& stage, std::size_t member);

// Loads and memory of a plan whose stages name layers, degrees and choices, summed from the layers: what a search claims is
// checked against this. Sets in_flight, load and memory of every stage; returns the largest load.
double evaluate(const PlanningProblem& problem, std::vector<StageChoice>& stages);

// The synchronous step of an evaluated plan, first order: the slowest stage works through all microbatches, the others fill and
// drain. microbatches * max load + sum of (data * load) - max of (data * load).
double step_time(const PlanningProblem& problem, const std::vector<StageChoice>& stages);

// Edge numbers that arrive at and leave each layer, in the order of PlanningProblem::edges.
struct Incidence {
  std::vector<std::vector<int>> into, out_of;
  explicit Incidence(const PlanningProblem& problem);
};

}  // namespace panpipe::planner::piper
