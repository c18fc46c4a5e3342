// Writes a scenario as YAML that loads again, with the origin of each value.
//
// The written document is printed whole, with file references as found; defaults are added to its own maps. Values from
// referenced files, and sizes that follow from a model's name, are shown as comments, because the reference restores them.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/input/scalar_text.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "costmodel/scenario/scenario_keys.hpp"

namespace panpipe {

namespace {

constexpr std::size_t kOriginColumn = 48;  // where comments start, unless the line is longer

std::string line(std::size_t indent, const std::string& text, const std::string& origin) {
  std::string result = std::string(indent, ' ') + text;
  if (!origin.empty())
    result += std::string(result.size() < kOriginColumn ? kOriginColumn - result.size() : 1, ' ') + "# " + origin;
  return result + "\n";
}

bool below(const std::string& path, const std::string& parent) {
  return path.size() > parent.size() && path.compare(0, parent.size(), parent) == 0 &&
         (path[parent.size()] == '.' || path[parent.size()] == '[');
}

class Printer {
 public:
  explicit Printer(const Scenario& scenario) : scenario_(scenario) {}

  std::string print() {
    const Node& root = *scenario_.document;
    for (const Node::Entry& entry : root.entries) print_entry(entry, 0);
    // Keys that were not written: their values are defaults or derived.
    std::map<std::string, std::vector<const ResolvedValue*>> groups;
    for (const ResolvedValue& value : scenario_.resolved) {
      const std::string top = value.path.substr(0, value.path.find_first_of(".["));
      if (root.find(top) != nullptr) continue;
      // A preset that is named has the year of its software; one that nobody named is of the newest.
      const bool unnamed = top == "framework" && value.origin.starts_with("default");
      if (top == value.path)
        out_ += line(0, fmt::format("{}{}: {}", unnamed ? "# " : "", top, scalar_text(value.value)), value.origin);
      else
        groups[top].push_back(&value);
    }
    for (const auto& [top, values] : groups) {
      out_ += line(0, top + ":", "");
      for (const ResolvedValue* value : latest(values))
        out_ += line(2, fmt::format("{}: {}", value->path.substr(top.size() + 1), scalar_text(value->value)), value->origin);
    }
    return out_;
  }

 private:
  static std::vector<const ResolvedValue*> latest(const std::vector<const ResolvedValue*>& values) {
    std::vector<const ResolvedValue*> result;
    for (const ResolvedValue* value : values) {
      const auto same = std::find_if(result.begin(), result.end(), [&](auto* known) { return known->path == value->path; });
      if (same == result.end())
        result.push_back(value);
      else
        *same = value;
    }
    return result;
  }

  static std::string scalar(const Node& node) {
    if (node.kind == NodeKind::Null) return "~";
    const Key* key = scenario_keys().at(node.path);
    return scalar_text(key != nullptr && key->is_file() ? absolute_reference(node, *key) : node.text);
  }

  // A reference as it is found from any folder; the bare name of a shipped file, and a text that is no file, stay as they are.
  static std::string absolute_reference(const Node& node, const Key& key) {
    const bool may_be_name =
        std::any_of(key.forms.begin(), key.forms.end(), [](const Form& f) { return f.kind == ValueForm::Shipped; });
    const bool bare_name = node.text.find('/') == std::string::npos && node.text.find(".yaml") == std::string::npos;
    if (may_be_name && bare_name) return node.text;
    const auto found = find_file(node.text, node.source->directory);
    return found ? std::filesystem::absolute(*found).lexically_normal().string() : node.text;
  }

  static bool all_scalars(const Node& list) {
    return std::all_of(list.items.begin(), list.items.end(), [](const auto& item) { return item->kind == NodeKind::Scalar; });
  }

  static std::string flow(const Node& node) {
    std::string text;
    if (node.kind == NodeKind::Sequence) {
      for (const auto& item : node.items) text += (text.empty() ? "" : ", ") + flow(*item);
      return "[" + text + "]";
    }
    if (node.kind == NodeKind::Map) {
      for (const Node::Entry& entry : node.entries)
        text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", scalar_text(entry.key), flow(*entry.value));
      return "{" + text + "}";
    }
    return scalar(node);
  }

  void print_entry(const Node::Entry& entry, std::size_t indent) {
    const Node& node = *entry.value;
    const std::string key = scalar_text(entry.key);
    // An empty map is not written as `{}`, since defaults are added to it.
    if (node.kind == NodeKind::Map && (!node.entries.empty() || (!commented(node) && !additions(node).empty()))) {
      out_ += line(indent, key + ":", "");
      for (const Node::Entry& inner : node.entries) print_entry(inner, indent + 2);
      print_additions(node, indent + 2);
    } else if (node.kind == NodeKind::Sequence && !all_scalars(node)) {
      out_ += line(indent, key + ":", "");
      for (const auto& item : node.items) out_ += line(indent, "- " + flow(*item), origin_of(*item));
    } else {
      out_ += line(indent, fmt::format("{}: {}", key, flow(node)), origin_of(node));
      print_additions(node, indent + 2);
    }
  }

  // In `workload` and `cluster` what is added is the content of files and of models, and in `batch` what its global batch makes,
  // shown as comments; elsewhere the map's defaults.
  static bool commented(const Node& node) {
    return node.path.rfind("cluster", 0) == 0 || node.path.rfind("workload", 0) == 0 || node.path == "batch" ||
           node.kind != NodeKind::Map;
  }

  // Values resolved below a written key that are not written there.
  std::vector<const ResolvedValue*> additions(const Node& node) const {
    std::vector<const ResolvedValue*> found;
    if (node.kind == NodeKind::Sequence) return found;
    for (const ResolvedValue& value : scenario_.resolved) {
      if (!below(value.path, node.path)) continue;
      const std::string rest = value.path.substr(node.path.size() + 1);
      const std::string first = rest.substr(0, rest.find_first_of(".["));
      if (node.kind != NodeKind::Map || node.find(first) == nullptr) found.push_back(&value);
    }
    return latest(found);
  }

  void print_additions(const Node& node, std::size_t indent) {
    const char* mark = commented(node) ? "# " : "";
    for (const ResolvedValue* value : additions(node))
      out_ += line(indent, fmt::format("{}{}: {}", mark, value->path.substr(node.path.size() + 1), scalar_text(value->value)),
                   value->origin);
  }

  const Scenario& scenario_;
  std::string out_;
};

}  // namespace

std::string resolved_text(const Scenario& scenario) { return scenario.document ? Printer(scenario).print() : ""; }

}  // namespace panpipe
