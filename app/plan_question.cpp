#include "app/plan_question.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/error.hpp"
#include "costmodel/degrees/axes.hpp"
#include "costmodel/scenario/document_edits.hpp"

namespace panpipe::app {
namespace {

// The keys that open_plan_keys() opens, apart from those without a value to keep.
std::vector<std::string> searched_keys() {
  std::vector<std::string> keys;
  for (const Axis& axis : kAxes) keys.push_back(fmt::format("parallel.{}", axis.key));
  for (const char* key : {"batch.micro", "schedule", "recompute", "partition", "placement", "offload.optimizer",
                          "offload.parameters", "offload.activations"})
    keys.emplace_back(key);
  return keys;
}

const Node* node_in(const Node* root, const std::string& key) {
  const std::size_t dot = key.find('.');
  const Node* node = root != nullptr && root->kind == NodeKind::Map ? root->find(key.substr(0, dot)) : nullptr;
  return dot == std::string::npos || node == nullptr ? node : node_in(node, key.substr(dot + 1));
}

const Node* node_at(const Scenario& scenario, const std::string& key) { return node_in(scenario.document.get(), key); }

bool is_left_to_search(const Scenario& scenario, const std::string& key) {
  // A plan without stated cuts has those that balance its stages, and without a placement the devices in their order.
  return key != "partition" && key != "placement" && node_at(scenario, key) != nullptr && is_open(scenario, key);
}

}  // namespace

bool is_measured(const Scenario& scenario) {
  return !scenario.workload.layers_file.empty() || !scenario.workload.pt2_file.empty() || scenario.profile;
}

bool states_split(const Scenario& scenario) {
  if (scenario.cluster.size() == 1) return true;
  for (const char* degree : {"parallel.pipeline", "parallel.tensor", "parallel.data", "parallel.context", "parallel.expert"})
    if (node_at(scenario, degree) != nullptr) return true;
  return false;
}

bool states_plan(const Scenario& scenario) {
  for (const std::string& key : searched_keys())
    if (is_left_to_search(scenario, key)) return false;
  return states_split(scenario);
}

PlanQuestion::PlanQuestion(std::function<NodePtr()> document, std::string name, std::vector<std::string> overrides,
                           SearchRequest request, SizeOptions sizes)
    : document_(std::move(document)),
      name_(std::move(name)),
      overrides_(std::move(overrides)),
      request_(std::move(request)),
      sizes_(std::move(sizes)),
      degrees_(planner::method_named(request_.method) == planner::Method::Auto) {
  if (!request_.trainer.empty()) overrides_.push_back("trainer=" + request_.trainer);
  if (!sizes_.tokens.empty()) overrides_.push_back("run.tokens=" + sizes_.tokens);
  const NodePtr root = document_(), file = document_();
  apply_overrides(*root, overrides_);
  if (request_.open) restore_stated_plan(*root, *file);
  keep_stated_plan(*root, *file);
  const bool states_global = node_in(root.get(), "batch.global") != nullptr;
  try {
    Scenario stated = evidence_.with(resolve_document(root, name_));
    opens_sizes_ = !is_measured(stated);
    if (!states_global) global_batch_ = stated.degrees.micro * stated.degrees.microbatches * stated.degrees.data;
    if (states_plan(stated)) yours_ = std::move(stated);
  } catch (const InputError& error) {
    if (request_.open && !states_global) throw;
    searched();  // reports a fault that is not of the stated plan alone
    without_yours_ =
        "your plan cannot run: " + (error.diagnostics().empty() ? error.what() : error.diagnostics().front().message);
  }
}

Scenario PlanQuestion::searched(const std::vector<std::string>& more) const {
  const NodePtr root = document_();
  if (request_.open) open_plan_keys(*root, {.degrees = degrees_, .sizes = opens_sizes_, .global_batch = global_batch_});
  std::vector<std::string> all = overrides_;
  all.insert(all.end(), more.begin(), more.end());
  return evidence_.with(resolve_document(root, name_, all));
}

std::vector<std::string> PlanQuestion::kept(const Scenario& searched) const {
  std::vector<std::string> keys;
  if (request_.open) return keys;
  for (const std::string& key : searched_keys()) {
    const bool of_degrees =
        key.starts_with("parallel.") || key.starts_with("offload.") || key == "batch.micro" || key == "placement";
    const Node* stated = node_at(searched, key);
    if (stated != nullptr && !stated->overridden && !is_open(searched, key) && (degrees_ || !of_degrees)) keys.push_back(key);
  }
  return keys;
}

std::optional<planner::Answer> PlanQuestion::offloaded(const Scenario& searched, const std::vector<std::string>& keys,
                                                       const planner::SearchOptions& options) const {
  try {
    const auto root = std::make_shared<Node>(*searched.document);
    const Experiment hosted(evidence_.with(resolve_document(root, name_, keys)));
    planner::Answer answer = planner::search(hosted, options);
    for (planner::Candidate& candidate : answer.candidates)
      for (const std::string& key : keys)
        if (const std::size_t is = key.find('='); key.substr(is + 1) != "auto")
          candidate.settings.emplace_back(key.substr(0, is), key.substr(is + 1));
    return answer;
  } catch (const InputError&) {  // there is nothing to offload, or the trainer cannot
    return std::nullopt;
  }
}

planner::Answer PlanQuestion::found(const Experiment& searched, const planner::SearchOptions& options) const {
  planner::Answer answer = planner::search(searched, options);
  if (!request_.open || !degrees_ || !answer.candidates.empty() || answer.interrupted) return answer;
  if (node_at(searched.scenario, "offload") != nullptr) return answer;  // an override states it
  // Each alone; all together where that does not suffice. Some trainers move all state or none.
  const std::vector<std::vector<std::string>> choices = {
      {"offload.activations=full"},
      {"offload.optimizer=cpu", "offload.parameters=auto"},
      {"offload.optimizer=cpu", "offload.parameters=cpu"},
      {"offload.optimizer=cpu", "offload.parameters=auto", "offload.activations=full"}};
  std::optional<planner::Answer> best;
  bool state = false;  // was searched
  for (std::size_t c = 0; c < choices.size() && !options.stopped(); ++c) {
    if (c == 2 && state) continue;
    if (c == 3 && best) break;
    std::optional<planner::Answer> next = offloaded(searched.scenario, choices[c], options);
    state |= next && c == 1;
    if (!next || next->candidates.empty()) continue;
    if (!best ||
        planner::deciding_figure(*next, next->candidates.front()) < planner::deciding_figure(*best, best->candidates.front()))
      best = std::move(next);
  }
  if (!best) return answer;
  best->notes.insert(best->notes.begin(), "nothing fits without offload: " + answer.reason);
  return std::move(*best);
}

planner::Answer PlanQuestion::answer(const Experiment& searched, const planner::SearchOptions& options) const {
  planner::Answer answer = found(searched, options);
  answer.without_yours = without_yours_;
  if (yours_) planner::add_yours(searched, *yours_, options, answer);
  return answer;
}

}  // namespace panpipe::app
