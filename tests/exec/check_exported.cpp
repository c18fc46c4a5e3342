// Holds one exported model against its reference, cut in several ways: what tools/coverage.py runs.
//
//   check_exported MODEL.pt2 REFERENCE.safetensors
//
// prints one line of JSON per cut: {"cut", "loss", "gradient", "worst", "buffer", "error"}.
#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "costmodel/workload/archive.hpp"
#include "costmodel/workload/operator_cost.hpp"
#include "tests/exec/exported_check.hpp"

namespace {

using namespace panpipe;
using namespace panpipe::exec;

void check(const OperatorGraph& graph, const Reference& reference, const Cut& cut) {
  nlohmann::json line = {{"cut", cut.text()}};
  try {
    const StepOutcome found = train(graph, plan_of(graph, cut, reference.microbatches), reference);
    const Difference difference = compare(graph, reference.expected, found);
    line["loss"] = difference.loss;
    line["gradient"] = difference.gradient;
    line["worst"] = difference.worst_gradient;
    line["buffer"] = difference.buffer;
    line["worst_buffer"] = difference.worst_buffer;
    line["missing"] = difference.missing;
  } catch (const std::exception& error) {
    line["error"] = error.what();
  }
  std::cout << line.dump() << std::endl;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::cerr << "usage: check_exported MODEL.pt2 REFERENCE.safetensors\n";
    return 2;
  }
  try {
    const Reference reference = read_reference(arguments[2]);
    const OperatorGraph graph = load_exported(arguments[1], reference.micro);
    (void)count_work(graph);
    std::cout << nlohmann::json({{"operators", graph.operators.size()}, {"units", graph.units.size()}}).dump() << std::endl;
    check(graph, reference, {.schedule = "gpipe", .ranks = 1});
    check(graph, reference, {.schedule = "1f1b", .ranks = 2});
    check(graph, reference, {.schedule = "zb-h1", .ranks = 2});
    check(graph, reference, {.schedule = "1f1b", .ranks = 4});
  } catch (const std::exception& error) {
    std::cout << nlohmann::json({{"error", error.what()}}).dump() << std::endl;
    return 1;
  }
  return 0;
}
