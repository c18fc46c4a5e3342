// Places of a scenario's keys: for faults that are found after reading, and for what its text leaves open.
#include <algorithm>

#include "costmodel/scenario/check_together.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

namespace {

// The written node nearest to a path: "schedule.group" -> schedule.group, schedule, or the document; "optimizer.groups[1].match".
const Node& nearest_node(const Node& root, const std::string& path) {
  const Node* node = &root;
  std::size_t begin = 0;
  while (begin < path.size() && node->kind == NodeKind::Map) {
    const std::size_t end = std::min(path.find('.', begin), path.size()), bracket = std::min(path.find('[', begin), end);
    const Node* next = node->find(path.substr(begin, bracket - begin));
    if (next == nullptr) break;
    node = next;
    begin = end + 1;
    if (bracket == end || node->kind != NodeKind::Sequence) continue;
    const std::size_t item = std::stoul(path.substr(bracket + 1));
    if (item >= node->items.size()) break;
    node = node->items[item].get();
  }
  return *node;
}

}  // namespace

InputError fault_at(const Scenario& scenario, const std::string& path, const std::string& message, const std::string& help,
                    std::string_view code) {
  if (!scenario.document) return InputError(message, help, code);
  return InputError(std::vector<Diagnostic>{diagnostic_at(nearest_node(*scenario.document, path), message, help, code)});
}

void check_together(const Scenario& scenario, const Features& features, Where asked) {
  if (const Conflict* row = conflict_of(features, asked))
    throw fault_at(scenario, std::string(row->key), text_of(*row), std::string(row->help), code_of(*row));
}

InputError placed(const InputError& fault, const Scenario& scenario, const std::string& path) {
  const std::vector<Diagnostic>& diagnostics = fault.diagnostics();
  if (diagnostics.size() != 1 || !diagnostics.front().file.empty()) return fault;
  return fault_at(scenario, path, diagnostics.front().message, diagnostics.front().help, diagnostics.front().code);
}

bool is_open(const Scenario& scenario, const std::string& path) {
  if (!scenario.document) return true;
  const Node& node = nearest_node(*scenario.document, path);
  const auto is_auto = [](const Node& one) { return one.kind == NodeKind::Scalar && one.text == "auto"; };
  if (node.path != path || is_auto(node)) return true;
  if (path != "schedule" || node.kind == NodeKind::Scalar) return false;
  const Node* name = node.find("name");
  return node.kind == NodeKind::Sequence || (name != nullptr && is_auto(*name));  // a choice among some, or all with an option
}

std::string origin_of(const Scenario& scenario, const std::string& path) {
  for (auto value = scenario.resolved.rbegin(); value != scenario.resolved.rend(); ++value)
    if (value->path == path) return value->origin;
  if (!scenario.document) return "default";
  const Node& node = nearest_node(*scenario.document, path);
  return node.path == path ? origin_of(node) : "default";
}

}  // namespace panpipe
