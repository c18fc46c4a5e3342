// Translates an archive's program node by node. Internal to this folder.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "costmodel/workload/archive_json.hpp"
#include "costmodel/workload/archive_payload.hpp"
#include "costmodel/workload/graph.hpp"

namespace panpipe {

// A valid but unsupported operator or tensor.
struct Unusable {
  std::string what;    // "torch.ops.mine.scan.default"
  std::string module;  // of its first use
  std::string why;     // the reason, and the remedy
  int more = 0;        // further uses
};

class ArchiveProgram {
 public:
  ArchiveProgram(std::string archive, const ArchiveDocument& document, std::map<std::string, Payload> weights,
                 std::map<std::string, Payload> constants);

  // Operators have unit 0 and `module` filled in; nothing is pruned and gradients are not traced yet. Throws InputError.
  OperatorGraph translate();

 private:
  using Number = std::variant<std::int64_t, double, bool>;
  // Names in a graph, or in a region inside it.
  struct Scope {
    const Json* graph = nullptr;
    std::map<std::string, int> tensors;
    std::map<std::string, Number> numbers;
  };
  // The context of an operator.
  struct Region {
    bool recorded = true;
    std::optional<Autocast> autocast;
  };

  void read_inputs(Scope& scope);
  void read_input(Scope& scope, const Json& spec, const Json& argument);
  int add_stored(const std::string& name, TensorRole role, const std::map<std::string, Payload>& from);
  void read_outputs(const Scope& scope);
  void write_back(int buffer, int value);

  void translate_graph(Scope& scope, const Region& region);
  void translate_node(Scope& scope, const Region& region, const Json& node);
  bool translate_number(Scope& scope, const Json& node);
  void translate_operator(Scope& scope, const Region& region, const Json& node);
  void translate_region(Scope& scope, const Region& region, const Json& node);
  void bind_results(Scope& scope, Operator& op, const Json& node);
  int make_activation(const Scope& scope, const std::string& name, const std::string& module);

  std::optional<Argument> argument_of(const Scope& scope, const Json& argument, const std::string& where, std::string& why);
  std::optional<Argument> number_argument(const Scope& scope, const std::string& tag, const Json& value, const std::string& where,
                                          std::string& why);
  std::optional<Argument> setting_argument(const std::string& tag, const Json& value, const std::string& where, std::string& why);
  int tensor_named(const Scope& scope, const Json& value, const std::string& where) const;
  std::optional<Number> number_of(const Scope& scope, const Json& value, const std::string& where) const;
  std::optional<Number> hint_of(const Scope& scope, const std::string& name) const;
  void unusable(const std::string& what, const std::string& module, const std::string& why);
  void throw_unusable() const;

  std::string archive_;
  const ArchiveDocument& document_;
  std::map<std::string, Payload> weights_, constants_;
  std::map<std::string, int> first_with_values_;  // by entry and place in it
  std::map<std::string, int> kept_;               // buffers and parameters by name
  std::vector<std::pair<int, std::string>> copies_back_;
  std::vector<Unusable> unusable_;
  OperatorGraph graph_;
};

// Module path of a node, such as "transformer.h.0.attn"; "" if it has none.
std::string module_path(const Json& node);

}  // namespace panpipe
