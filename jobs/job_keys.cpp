#include "jobs/job_keys.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "base/error.hpp"
#include "base/input/null_value.hpp"
#include "base/text/did_you_mean.hpp"
#include "base/text/quantity_text.hpp"
#include "jobs/job.hpp"

namespace panpipe::jobs {
namespace {

constexpr std::size_t kMostSuggestions = 64;

std::string value_text(const Node& node) {
  if (node.kind == NodeKind::Scalar) return node.text;
  if (node.kind == NodeKind::Null) return "null";
  if (node.kind == NodeKind::Map) return "{...}";
  std::vector<std::string> items;
  for (const auto& item : node.items) items.push_back(value_text(*item));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

}  // namespace

JobKeys::JobKeys(NodePtr root) : root_(std::move(root)) {
  if (root_->kind != NodeKind::Map)
    throw InputError(std::vector{diagnostic_at(*root_, "the configuration of a job is a map of keys and values")});
  add("", root_);
}

void JobKeys::add(const std::string& path, const NodePtr& node) {
  if (node->kind == NodeKind::Map) {
    for (const Node::Entry& entry : node->entries) add(path.empty() ? entry.key : path + "." + entry.key, entry.value);
    return;
  }
  if (values_.emplace(path, node).second) order_.push_back(path);
}

const std::string& JobKeys::name() const { return root_->source->name; }

bool JobKeys::has(const std::string& path) const {
  const auto found = values_.find(path);
  return found != values_.end() && !is_null(*found->second);
}

const Node* JobKeys::find(const std::string& path) {
  asked_.insert(path);
  const auto found = values_.find(path);
  if (found == values_.end()) return nullptr;
  understood_.insert(path);
  return is_null(*found->second) ? nullptr : found->second.get();
}

std::string JobKeys::shown(const std::string& path) const {
  const auto found = values_.find(path);
  return found == values_.end() ? "" : value_text(*found->second);
}

void JobKeys::refuse(const std::string& path, const std::string& message, const std::string& help) const {
  throw InputError(std::vector{diagnostic_at(*values_.at(path), without_controls(fmt::format("'{}' {}", path, message)), help)});
}

std::optional<int> JobKeys::integer(const std::string& path, int at_least, int at_most) {
  const Node* node = find(path);
  if (node == nullptr) return std::nullopt;
  const auto value = number(path);
  if (*value < at_least) refuse(path, fmt::format("is {}; it must be at least {}", node->text, at_least));
  if (*value > at_most) refuse(path, fmt::format("is {}, more than {}", node->text, at_most));
  const int whole = static_cast<int>(*value);
  if (whole != *value) refuse(path, fmt::format("is '{}', which is no whole number", node->text));
  return whole;
}

// As JSON, YAML and TOML write numbers: "5e8" is a whole number for DeepSpeed, "1_000" for TOML.
std::optional<double> JobKeys::number(const std::string& path) {
  const Node* node = find(path);
  if (node == nullptr) return std::nullopt;
  std::string digits = node->kind == NodeKind::Scalar ? node->text : "";
  std::erase(digits, '_');
  const Parsed<double> value = parse_number(digits);
  if (!value.value) refuse(path, fmt::format("is '{}', which is no number", shown(path)));
  return value.value;
}

std::optional<bool> JobKeys::flag(const std::string& path) {
  const Node* node = find(path);
  if (node == nullptr) return std::nullopt;
  const std::string word = lower_case(node->kind == NodeKind::Scalar ? node->text : "");
  if (word == "true" || word == "yes" || word == "1") return true;
  if (word == "false" || word == "no" || word == "0") return false;
  refuse(path, fmt::format("is '{}'; it is true or false", shown(path)));
}

std::optional<std::string> JobKeys::text(const std::string& path) {
  const Node* node = find(path);
  if (node == nullptr) return std::nullopt;
  if (node->kind != NodeKind::Scalar) refuse(path, "is a list, where one word is expected");
  return node->text;
}

std::vector<std::string> JobKeys::list(const std::string& path) {
  const Node* node = find(path);
  std::vector<std::string> words;
  if (node == nullptr) return words;
  if (node->kind == NodeKind::Scalar) return {node->text};
  for (const auto& item : node->items) words.push_back(value_text(*item));
  return words;
}

std::vector<std::vector<std::string>> JobKeys::lists(const std::string& path) {
  std::vector<std::vector<std::string>> lists;
  const Node* node = find(path);
  if (node == nullptr) return lists;
  for (const auto& inner : node->items) {
    if (inner->kind != NodeKind::Sequence) refuse(path, "is no list of lists");
    lists.emplace_back();
    for (const auto& item : inner->items) lists.back().push_back(value_text(*item));
  }
  return lists;
}

bool JobKeys::automatic(const std::string& path) {
  const auto found = values_.find(path);
  if (found == values_.end() || found->second->kind != NodeKind::Scalar || found->second->text != "auto") return false;
  understood_.insert(path);
  return true;
}

void JobKeys::replace(const std::string& path, const std::string& value) {
  auto source = std::make_shared<SourceText>();
  source->name = "--" + path;
  source->lines = {value};
  auto node = std::make_shared<Node>();
  node->kind = NodeKind::Scalar;
  node->source = std::move(source);
  node->line = node->column = 1;
  node->text = value;
  if (!values_.contains(path)) order_.push_back(path);
  values_[path] = std::move(node);
}

std::string JobKeys::line_of(const std::string& path) const { return one_line(fmt::format("{}: {}", path, shown(path))); }

std::vector<std::string> JobKeys::take(const std::vector<std::string>& names) {
  std::vector<std::string> taken;
  for (const std::string& path : order_) {
    if (!names_one_of(path, names) || understood_.contains(path)) continue;
    understood_.insert(path);
    if (has(path) && (!stated_ || stated_->contains(path))) taken.push_back(line_of(path));
  }
  return taken;
}

std::vector<std::string> JobKeys::rest(const std::vector<std::string>& known) const {
  std::vector<std::string> rest, candidates(asked_.begin(), asked_.end());
  for (const std::string& path : known)
    if (!path.ends_with('*')) candidates.push_back(path);
  for (const std::string& path : order_) {
    if (understood_.contains(path) || !has(path) || (stated_ && !stated_->contains(path))) continue;
    // The search takes the product of the lengths and names; a file may hold thousands of keys that are none.
    const auto near = rest.size() < kMostSuggestions ? nearest_name(path, candidates) : std::nullopt;
    rest.push_back(line_of(path) + (near ? fmt::format(" ({})", did_you_mean(*near)) : ""));
  }
  return rest;
}

}  // namespace panpipe::jobs
