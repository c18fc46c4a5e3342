#include "costmodel/scenario/document_edits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include "base/input/reader.hpp"
#include "costmodel/cluster/cluster_reader.hpp"
#include "costmodel/degrees/axes.hpp"
#include "costmodel/scenario/trainer.hpp"
#include "schedule/find_family.hpp"

namespace panpipe {

namespace {

// The value of a key; nullptr: none.
NodePtr* slot_of(Node& map, std::string_view key) {
  const auto found = std::find_if(map.entries.begin(), map.entries.end(), [&](const auto& entry) { return entry.key == key; });
  return found == map.entries.end() ? nullptr : &found->value;
}

Node* entry_of(Node& map, std::string_view key) {
  NodePtr* slot = slot_of(map, key);
  return slot == nullptr ? nullptr : slot->get();
}

void erase(Node& map, std::string_view key) {
  std::erase_if(map.entries, [&](const Node::Entry& entry) { return entry.key == key; });
}

// Turns a scalar that abbreviates {key: scalar} into that map, so that an override of another of its keys has a map to change.
void widen(Node& root, const std::string& name, const std::string& key) {
  NodePtr* slot = slot_of(root, name);
  if (slot == nullptr || (*slot)->kind != NodeKind::Scalar) return;
  const NodePtr scalar = *slot;
  *slot = std::make_shared<Node>(*scalar);
  (*slot)->kind = NodeKind::Map;
  (*slot)->text.clear();
  scalar->path += "." + key;
  (*slot)->entries.push_back({key, scalar->line, scalar->column, scalar});
}

// The family named by the scenario's `schedule: {name: ...}`; nullptr if it is not such a map.
const ScheduleFamily* family_named_in(const Node& root) {
  const Node* schedule = root.kind == NodeKind::Map ? root.find("schedule") : nullptr;
  const Node* name = schedule != nullptr && schedule->kind == NodeKind::Map ? schedule->find("name") : nullptr;
  return name != nullptr && name->kind == NodeKind::Scalar ? find_family(name->text) : nullptr;
}

// If an override names another family, drops the file's options of the former one; those of overrides stay, and are refused.
void drop_options_of(const ScheduleFamily* before, Node& root) {
  const ScheduleFamily* now = family_named_in(root);
  if (before == nullptr || now == nullptr || before == now) return;
  NodePtr& schedule = *slot_of(root, "schedule");
  schedule = std::make_shared<Node>(*schedule);
  std::erase_if(schedule->entries, [&](const Node::Entry& option) {
    return !option.value->overridden && default_option(*before, option.key) && !default_option(*now, option.key);
  });
}

// The two ways to count a batch; each follows from the other.
constexpr std::pair<const char*, const char*> kBatchCounts[] = {{"microbatches", "global"}, {"global", "microbatches"}};

// If an override or a plan counts the batch in one way, drops the file's count in the other way. That of another override stays,
// and is refused.
void drop_other_count(Node& root, const std::string& counted) {
  Node* batch = entry_of(root, "batch");
  if (batch == nullptr || batch->kind != NodeKind::Map) return;
  for (const auto& [one, other] : kBatchCounts)
    if (counted == one)
      std::erase_if(batch->entries,
                    [other = other](const Node::Entry& stated) { return stated.key == other && !stated.value->overridden; });
}

// `trainer=NAME`, as of `--for`, keeps the release that the scenario states of the same trainer.
bool names_stated_trainer(const Node& root, const std::string& assignment) {
  const Node* stated = root.kind == NodeKind::Map ? root.find("trainer") : nullptr;
  const Node* name = stated != nullptr && stated->kind == NodeKind::Map ? stated->find("name") : nullptr;
  if (name == nullptr || !assignment.starts_with("trainer=")) return false;
  try {
    return trainer_name_of(assignment.substr(std::string_view("trainer=").size())) == trainer_name_of(name->text);
  } catch (const InputError&) {  // reported where it is read
    return false;
  }
}

// "evidence+=FILE", as of `--evidence`, adds a piece to those that the scenario names.
bool add_evidence(Node& root, const std::string& assignment) {
  constexpr std::string_view kAdds = "evidence+=";
  if (!assignment.starts_with(kAdds) || root.kind != NodeKind::Map) return false;
  const Node* stated = root.find("evidence");
  std::vector<NodePtr> pieces = stated == nullptr ? std::vector<NodePtr>() : stated->items;
  if (stated != nullptr && stated->kind != NodeKind::Sequence && stated->kind != NodeKind::Null)
    return true;  // its reader reports it
  apply_override(root, fmt::format("evidence=[{}]", assignment.substr(kAdds.size())));
  Node& evidence = *entry_of(root, "evidence");
  for (const NodePtr& added : evidence.items) {
    added->path = fmt::format("evidence[{}]", pieces.size());
    auto source = std::make_shared<SourceText>(*added->source);
    source->name = "--evidence";
    source->lines = {assignment.substr(kAdds.size())};
    added->source = source;
    added->column = 1;
    pieces.push_back(added);
  }
  evidence.items = pieces;
  return true;
}

}  // namespace

void apply_overrides(Node& root, const std::vector<std::string>& overrides) {
  ReadLog log;
  for (const std::string& assignment : overrides) {
    if (names_stated_trainer(root, assignment)) continue;
    const ScheduleFamily* family = family_named_in(root);
    const std::string name = assignment.substr(0, assignment.find_first_of(".[="));
    const bool goes_inside = name.size() < assignment.size() && assignment[name.size()] == '.';
    if (goes_inside && root.kind == NodeKind::Map) {
      if (name == "schedule" || name == "optimizer" || name == "framework" || name == "trainer") widen(root, name, "name");
      if (name == "workload") widen(root, name, "model");
      if (NodePtr* cluster = name == "cluster" ? slot_of(root, name) : nullptr) *cluster = overridable_reference(*cluster);
    }
    try {
      if (add_evidence(root, assignment)) continue;
      apply_override(root, assignment);
      if (assignment.rfind("schedule.name=", 0) == 0) drop_options_of(family, root);
      if (assignment.rfind("batch.", 0) == 0) drop_other_count(root, assignment.substr(6, assignment.find('=') - 6));
    } catch (const InputError& error) {
      log.add(error);
    }
  }
  log.throw_if_errors();
}

namespace {

bool is_choice(const Node* node) {
  return node == nullptr || (node->kind == NodeKind::Scalar && node->text == "auto") || node->kind == NodeKind::Null;
}

void put(Node& root, const std::string& name, const Node& value) {
  erase(root, name);
  root.entries.push_back({name, value.line, value.column, std::make_shared<Node>(value)});
}

// Entries of `map` replace those of the scenario's map of that name.
void put_entries(Node& root, const std::string& name, const Node& map) {
  Node* into = entry_of(root, name);
  if (into == nullptr || into->kind != NodeKind::Map) return put(root, name, map);
  for (const Node::Entry& entry : map.entries) {
    erase(*into, entry.key);
    into->entries.push_back(entry);
  }
}

}  // namespace

void apply_plan_keys(Node& root, const Node& plan) {
  if (root.kind != NodeKind::Map || plan.kind != NodeKind::Map) return;
  for (const char* name : {"batch", "parallel", "offload"})
    if (const Node* map = plan.find(name); map != nullptr && map->kind == NodeKind::Map) {
      put_entries(root, name, *map);
      if (name == std::string_view("batch") && map->find("microbatches") != nullptr) drop_other_count(root, "microbatches");
    }
  if (const Node* recompute = plan.find("recompute")) put(root, "recompute", *recompute);
  const Node* devices = plan.find("devices");
  if (devices == nullptr || devices->kind != NodeKind::Sequence) return;
  auto placement = std::make_shared<Node>(*devices);
  placement->path = "placement";
  for (std::size_t i = 0; i < placement->items.size(); ++i) {
    placement->items[i] = std::make_shared<Node>(*placement->items[i]);
    placement->items[i]->path = fmt::format("placement[{}]", i);
  }
  put(root, "placement", *placement);
}

void fill_open_keys(Node& root, const Node& plan) {
  if (root.kind != NodeKind::Map || plan.kind != NodeKind::Map) return;
  for (const char* name : {"batch", "parallel", "offload"}) {
    const Node *map = plan.find(name), *now = root.find(name);
    if (map == nullptr || now == nullptr || map->kind != NodeKind::Map || now->kind != NodeKind::Map) continue;
    Node open = *map;
    std::erase_if(open.entries, [&](const Node::Entry& entry) {
      for (const auto& [one, other] : kBatchCounts)
        if (entry.key == one && now->find(other) != nullptr) return true;
      const Node* stated = now->find(entry.key);
      return stated != nullptr && (stated->kind != NodeKind::Scalar || stated->text != "auto");
    });
    put_entries(root, name, open);
  }
  const Node *operators = plan.find("recompute"), *now = root.find("recompute");
  if (operators != nullptr && is_choice(now)) put(root, "recompute", *operators);
}

namespace {

// The parts of a plan that a scenario states outside `batch` and `parallel`.
constexpr const char* kPlanParts[] = {"schedule", "recompute", "partition", "placement", "offload"};

void make_scalar(Node& node, std::string text) {
  node.kind = NodeKind::Scalar;
  node.text = std::move(text);
  node.items.clear();
  node.entries.clear();
}

void open_degrees(Node& parallel, bool sizes) {
  for (const Axis& axis : kAxes) {
    const bool of_graph = axis.number != &Degrees::pipeline && axis.number != &Degrees::data && axis.number != &Degrees::zero &&
                          axis.number != &Degrees::virtual_stages && axis.number != &Degrees::shard;
    Node* stated = entry_of(parallel, axis.key);
    if (stated == nullptr || (of_graph && !sizes)) continue;
    // Absent, it is searched where sequences are long.
    if (axis.number == &Degrees::context && stated->text == "1")
      erase(parallel, axis.key);
    else
      make_scalar(*stated, "auto");
  }
}

void open_batch(Node& batch, const OpenedKeys& keys) {
  if (Node* micro = entry_of(batch, "micro"); micro != nullptr && keys.sizes) make_scalar(*micro, "auto");
  if (keys.global_batch == 0) return;
  erase(batch, "microbatches");
  erase(batch, "global");
  auto global = std::make_shared<Node>();
  global->source = batch.source;
  global->line = batch.line;
  global->column = batch.column;
  global->path = "batch.global";
  make_scalar(*global, std::to_string(keys.global_batch));
  batch.entries.push_back({"global", batch.line, batch.column, global});
}

}  // namespace

void keep_stated_plan(Node& root, const Node& file) {
  fill_open_keys(root, file);
  if (root.kind != NodeKind::Map || file.kind != NodeKind::Map) return;
  for (const Node::Entry& entry : file.entries) {
    if (std::find(std::begin(kPlanParts), std::end(kPlanParts), entry.key) == std::end(kPlanParts)) continue;
    const Node* now = root.find(entry.key);
    const bool among_some = entry.key == "schedule" && now != nullptr && now->kind == NodeKind::Sequence;
    if (!is_choice(now) && !among_some) continue;
    erase(root, entry.key);
    root.entries.push_back(entry);
  }
}

void restore_stated_plan(Node& root, const Node& file) {
  if (root.kind != NodeKind::Map || file.kind != NodeKind::Map || file.find("parallel") == nullptr) return;
  const auto take = [](Node& into, const Node& from, std::string_view key) {
    erase(into, key);
    for (const Node::Entry& entry : from.entries)
      if (entry.key == key) into.entries.push_back(entry);
  };
  take(root, file, "parallel");
  for (const char* part : kPlanParts) take(root, file, part);
  Node* batch = entry_of(root, "batch");
  const Node* stated = file.find("batch");
  if (batch != nullptr && batch->kind == NodeKind::Map && stated != nullptr && stated->kind == NodeKind::Map)
    take(*batch, *stated, "micro");
}

void open_plan_keys(Node& root, const OpenedKeys& keys) {
  if (root.kind != NodeKind::Map) return;
  for (const char* part : kPlanParts) {
    const Node* stated = root.find(part);
    const bool list = part == std::string_view("schedule") && stated != nullptr && stated->kind == NodeKind::Sequence;
    const bool of_degrees = part == std::string_view("placement") || part == std::string_view("offload");
    if (!list && (keys.degrees || !of_degrees)) erase(root, part);
  }
  Node *parallel = entry_of(root, "parallel"), *batch = entry_of(root, "batch");
  if (parallel != nullptr && keys.degrees) open_degrees(*parallel, keys.sizes);
  if (parallel != nullptr && !keys.degrees) erase(*parallel, "virtual_stages");
  if (batch != nullptr && batch->kind == NodeKind::Map && keys.degrees) open_batch(*batch, keys);
}

}  // namespace panpipe
