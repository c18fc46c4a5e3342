#include "tests/planner/piper/brute_force.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

namespace panpipe::planner::piper {
namespace {

struct Part {
  unsigned layers;  // bits
  int data, degree;
};

class Enumeration {
 public:
  explicit Enumeration(const PlanningProblem& problem) : problem_(problem), all_((1U << problem.layers.size()) - 1) {}

  BruteForce run() {
    behind(0, 0, 0);
    return result_;
  }

 private:
  // All stages in front of those in `parts_`, which hold the layers `done`.
  void behind(unsigned done, int devices, int replicas) {
    if (done == all_) {
      if (problem_.stages == 0 || static_cast<int>(parts_.size()) == problem_.stages) price();
      return;
    }
    for (unsigned stage = 1; stage <= all_; ++stage) {
      if ((stage & done) != 0 || !closed(done | stage)) continue;
      for (std::size_t g = 0; g < problem_.degrees.size(); ++g)
        for (int d = 1; devices + d * problem_.degrees[g] <= problem_.devices && replicas + d <= problem_.microbatches; ++d) {
          if (problem_.microbatches % d != 0 || d < problem_.least_data) continue;
          if (problem_.most_data > 0 && d > problem_.most_data) continue;
          parts_.push_back({stage, d, static_cast<int>(g)});
          behind(done | stage, devices + d * problem_.degrees[g], replicas + d);
          parts_.pop_back();
        }
    }
  }

  bool closed(unsigned set) const {
    return std::none_of(problem_.edges.begin(), problem_.edges.end(),
                        [&](const Edge& e) { return (set >> e.from & 1) != 0 && (set >> e.to & 1) == 0; });
  }

  // parts_ run from the last stage to the first. The best choice of each stage on its own is the best of the plan: both
  // objectives only grow with the load of a stage.
  void price() {
    double slowest = 0, sum = 0, longest = 0;
    int replicas = 0;
    for (const Part& part : parts_) {
      replicas += part.data;
      const double load = best_load(part, static_cast<int>(std::ceil(1.0 * replicas / part.data)));
      if (std::isinf(load)) return;
      slowest = std::max(slowest, load);
      sum += part.data * load;
      longest = std::max(longest, part.data * load);
    }
    const double step = problem_.microbatches * slowest + sum - longest;
    result_.least_load = result_.feasible ? std::min(result_.least_load, slowest) : slowest;
    result_.least_step = result_.feasible ? std::min(result_.least_step, step) : step;
    result_.feasible = true;
  }

  double best_load(const Part& part, int in_flight) const {
    std::vector<int> layers;
    for (int v = 0; v < static_cast<int>(problem_.layers.size()); ++v)
      if (part.layers >> v & 1) layers.push_back(v);
    std::vector<const Choice*> taken(layers.size());
    double best = INFINITY;
    choose(part, layers, taken, 0, in_flight, best);
    return best;
  }

  void choose(const Part& part, const std::vector<int>& layers, std::vector<const Choice*>& taken, std::size_t next,
              int in_flight, double& best) const {
    if (next == layers.size()) {
      best = std::min(best, load(part, layers, taken, in_flight));
      return;
    }
    for (const Choice& choice : problem_.layers[layers[next]].choices[part.degree]) {
      taken[next] = &choice;
      choose(part, layers, taken, next + 1, in_flight, best);
    }
  }

  double load(const Part& part, const std::vector<int>& layers, const std::vector<const Choice*>& taken, int in_flight) const {
    double seconds = 0, memory = 0, reduced = 0, crossing = 0;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      seconds += taken[i]->time;
      memory += taken[i]->in_flight * in_flight + taken[i]->fixed;
      reduced += taken[i]->parameters;
      std::size_t in = 0, out = 0;
      for (const Edge& e : problem_.edges) {
        const bool from = (part.layers >> e.from & 1) != 0, to = (part.layers >> e.to & 1) != 0;
        if (e.to == layers[i]) {
          if (!from) crossing += e.bytes + (taken[i]->receive.empty() ? 0 : taken[i]->receive[in]);
          ++in;
        }
        if (e.from == layers[i]) {
          if (!to) crossing += e.bytes + (taken[i]->send.empty() ? 0 : taken[i]->send[out]);
          ++out;
        }
      }
    }
    if (memory > problem_.memory) return INFINITY;
    const double d = part.data;
    return seconds / d + 2 * crossing / (d * problem_.bandwidth) +
           4 * (d - 1) * reduced / (d * problem_.bandwidth * problem_.microbatches);
  }

  const PlanningProblem& problem_;
  unsigned all_;
  std::vector<Part> parts_;
  BruteForce result_;
};

}  // namespace

BruteForce brute_force(const PlanningProblem& problem) { return Enumeration(problem).run(); }

PlanningProblem random_problem(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
  PlanningProblem problem;
  const int layers = 1 + below(5);
  problem.degrees = below(2) ? std::vector<int>{1, 2} : std::vector<int>{1};
  problem.devices = 1 + below(5);
  problem.microbatches = std::vector<int>{2, 4, 6}[below(3)];
  problem.memory = 40 + below(80);
  problem.bandwidth = 1 + below(20);
  problem.most_data = below(4) == 0 ? 1 + below(3) : 0;
  const bool two_ways = below(5) == 0;  // at each degree: a stage recomputes none of its layers, or all
  const bool alike = below(2) == 0;
  for (int to = 1; to < layers; ++to)
    for (int from = 0; from < to; ++from)
      if (below(2)) problem.edges.push_back({from, to, 1.0 * below(30)});
  problem.layers.resize(layers);
  const Incidence edges(problem);
  for (int v = 0; v < layers; ++v) {
    Layer& layer = problem.layers[v];
    layer.name = "layer" + std::to_string(v);
    for (std::size_t g = 0; g < problem.degrees.size(); ++g) {
      auto& choices = layer.choices.emplace_back();
      if (g > 0 && below(4) == 0) continue;
      const double parameters = below(20), border = below(10);
      const int count = two_ways ? 2 : 1 + below(3);
      for (int c = 0; c < count; ++c) {
        Choice choice;
        choice.name = "choice" + std::to_string(c);
        choice.recompute = c == 1;
        choice.time = 10 + below(40) + 8 * c;
        if (two_ways && c > 0) choice.time = choices[0].time + below(20);
        choice.in_flight = std::max(1, 12 + below(12) - 6 * c);
        choice.fixed = below(20);
        choice.parameters = alike ? parameters : below(20);
        for (std::size_t k = 0; k < edges.into[v].size(); ++k) choice.receive.push_back(alike ? border : below(10));
        for (std::size_t k = 0; k < edges.out_of[v].size(); ++k) choice.send.push_back(alike ? border : below(10));
        choices.push_back(choice);
      }
    }
  }
  if (!two_ways) return problem;
  const std::vector<int> degrees = std::exchange(problem.degrees, {});
  for (const int degree : degrees) problem.degrees.insert(problem.degrees.end(), 2, degree);
  for (Layer& layer : problem.layers)
    for (const std::vector<Choice>& both : std::exchange(layer.choices, {}))
      for (std::size_t c = 0; c < 2; ++c) layer.choices.push_back(both.empty() ? both : std::vector<Choice>{both[c]});
  return problem;
}

}  // namespace panpipe::planner::piper
