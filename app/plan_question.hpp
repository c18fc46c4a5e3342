// What `panpipe plan` and panpipe.plan() are asked: the scenario to search, and the plan that it states.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/evidence/read_evidence.hpp"
#include "app/plan.hpp"
#include "costmodel/scenario/resolve_document.hpp"

namespace panpipe::app {

class PlanQuestion {
 public:
  // `document` makes the scenario's tree anew; the trainer of the request and the tokens of the sizes override it, too. Throws
  // InputError if the scenario as stated cannot be read and the batch to keep (SearchRequest::open) is not known without it.
  PlanQuestion(std::function<NodePtr()> document, std::string name, std::vector<std::string> overrides, SearchRequest request,
               SizeOptions sizes = {});
  const std::string& name() const { return name_; }  // of the scenario, in messages
  const SearchRequest& request() const { return request_; }
  const SizeOptions& sizes() const { return sizes_; }

  // With more overrides than the question's own.
  Scenario searched(const std::vector<std::string>& more = {}) const;

  // The scenario with a whole plan: it states how the devices are divided, and nothing that a plan decides is `auto`. What
  // overrides open (`schedule=auto`, `parallel={}`) counts as the file states it; with SearchRequest::open all that a plan
  // decides does, because overrides narrow the search then. nullopt: it states none.
  const std::optional<Scenario>& yours() const { return yours_; }

  // The keys that the file states and the search keeps, though SearchRequest::open would search them: "parallel.pipeline".
  std::vector<std::string> kept(const Scenario& searched) const;

  // The answer of a search. With SearchRequest::open activations or state go to the host's memory where nothing fits without
  // that.
  planner::Answer found(const Experiment& searched, const planner::SearchOptions& options) const;
  // The same with yours, or the reason for its absence.
  planner::Answer answer(const Experiment& searched, const planner::SearchOptions& options) const;

 private:
  // The answer with these keys of `offload`; nullopt: nothing of this scenario can be offloaded so.
  std::optional<planner::Answer> offloaded(const Scenario& searched, const std::vector<std::string>& keys,
                                           const planner::SearchOptions& options) const;

  std::function<NodePtr()> document_;
  std::string name_;
  std::vector<std::string> overrides_;
  SearchRequest request_;
  SizeOptions sizes_;
  mutable EvidenceOfCells evidence_;
  bool degrees_ = true;
  int global_batch_ = 0;
  bool opens_sizes_ = true;
  std::optional<Scenario> yours_;
  std::string without_yours_;
};

// True if costs were measured: they hold for the sizes of the measurement.
bool is_measured(const Scenario& scenario);

// True if the scenario states a degree by which its devices are divided, or has one device.
bool states_split(const Scenario& scenario);

// True if nothing that a plan decides is left to a search.
bool states_plan(const Scenario& scenario);

}  // namespace panpipe::app
