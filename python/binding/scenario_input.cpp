#include "python/binding/scenario_input.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <utility>

#include "base/input/yaml_document.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/scenario/resolve_document.hpp"

namespace panpipe::python {
namespace {

constexpr const char* kName = "scenario";

std::string text_of(nb::handle value) { return nb::cast<std::string>(nb::str(value)); }

// As YAML would have it; panpipe/_inputs.py has made texts, booleans and numbers of everything else.
std::string scalar_of(nb::handle value) {
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value) ? "true" : "false";
  return text_of(value);
}

class Builder {
 public:
  explicit Builder(std::shared_ptr<const SourceText> source) : source_(std::move(source)) {}

  NodePtr node(nb::handle value, const std::string& path) const {
    auto made = std::make_shared<Node>();
    made->source = source_;
    made->path = path;
    if (value.is_none()) return made;
    if (nb::isinstance<nb::dict>(value)) {
      made->kind = NodeKind::Map;
      for (const auto& [key, item] : nb::borrow<nb::dict>(value)) {
        const std::string name = text_of(key);
        made->entries.push_back({name, 0, 0, node(item, path.empty() ? name : path + "." + name)});
      }
    } else if (nb::isinstance<nb::list>(value)) {
      made->kind = NodeKind::Sequence;
      for (nb::handle item : value) made->items.push_back(node(item, fmt::format("{}[{}]", path, made->items.size())));
    } else {
      made->kind = NodeKind::Scalar;
      made->text = scalar_of(value);
    }
    return made;
  }

 private:
  std::shared_ptr<const SourceText> source_;
};

}  // namespace

NodePtr to_document(nb::handle dict, const std::string& name) {
  auto source = std::make_shared<SourceText>();
  source->name = name;
  return Builder(source).node(dict, "");
}

nb::object to_python(const Node& node) {
  if (node.kind == NodeKind::Null) return nb::none();
  if (node.kind == NodeKind::Map) {
    nb::dict made;
    for (const Node::Entry& entry : node.entries) made[nb::str(entry.key.c_str(), entry.key.size())] = to_python(*entry.value);
    return made;
  }
  if (node.kind == NodeKind::Sequence) {
    nb::list made;
    for (const NodePtr& item : node.items) made.append(to_python(*item));
    return made;
  }
  if (!node.quoted) {
    if (node.text == "true" || node.text == "false") return nb::bool_(node.text == "true");
    if (const auto whole = parse_integer(node.text).value) return nb::int_(*whole);
    if (const auto number = parse_number(node.text).value) return nb::float_(*number);
  }
  return nb::str(node.text.c_str(), node.text.size());
}

ScenarioInput::ScenarioInput(nb::object given) : given_(std::move(given)), is_dict_(nb::isinstance<nb::dict>(given_)) {
  name_ = is_dict_ ? kName : nb::cast<std::string>(given_);
  key_ = is_dict_ ? nb::cast<std::string>(nb::repr(given_)) : name_;
  key_ += '\n' + std::filesystem::current_path().string() + '\n' + data_directory();
}

NodePtr ScenarioInput::document() const {
  if (!is_dict_) return scenario_document(name_);
  const nb::gil_scoped_acquire gil;
  return to_document(given_, kName);
}

Scenario ScenarioInput::load(const std::vector<std::string>& overrides, const std::string& plan_file) const {
  return resolve_document(document(), name_, overrides, plan_file);
}

}  // namespace panpipe::python
