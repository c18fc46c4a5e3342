#include "jobs/torch/program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "base/error.hpp"
#include "base/text/characters.hpp"
#include "base/text/json_writer.hpp"
#include "costmodel/workload/input_limits.hpp"
#include "costmodel/workload/operands.hpp"
#include "jobs/torch/words.hpp"

namespace panpipe::jobs {
namespace {

// The modules that all of these parameters lie below: "transformer.h.3".
std::string common_module(const std::vector<std::string>& parameters) {
  if (parameters.empty()) return "";
  std::string common = parameters.front().substr(0, parameters.front().rfind('.'));
  for (const std::string& name : parameters)
    while (!common.empty() && name.rfind(common + ".", 0) != 0)
      common = common.find('.') == std::string::npos ? "" : common.substr(0, common.rfind('.'));
  return common;
}

// The name of a unit as a function: "h.3.attention" is of the kind "h_attention".
std::string function_name(const std::string& unit) {
  std::string name;
  for (const std::string& part : split_text(unit, '.'))
    if (part.empty() || part.find_first_not_of("0123456789") != std::string::npos) name += (name.empty() ? "" : "_") + part;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0 ? "unit_" + name : name;
}

// A unit's function without its name, and how it is called.
struct UnitText {
  std::string body;  // from the argument list on
  std::string path;  // of its module
  std::vector<int> reads, makes;
};

class Writer {
 public:
  explicit Writer(const OperatorGraph& graph) : g_(graph), of_loss_(graph.operators.size(), false) {
    if (!graph.values_file.empty())
      throw InputError("a script cannot hold the values of an exported model's archive",
                       "export a built-in model or one from its config.json");
    PANPIPE_CHECK(graph.degrees.tensor == 1, "a script computes whole parameters");
    find_target();
    made_by_.assign(graph.tensors.size(), -1);
    for (const Operator& op : graph.operators)
      for (const int made : op.outputs) made_by_[made] = op.unit;
    read_by_.assign(graph.tensors.size(), -1);
    for (std::size_t i = 0; i < graph.operators.size(); ++i)
      for_each_operand(graph.operators[i], [&](int tensor) {
        int& last = read_by_[tensor];
        last = std::max(last, of_loss_[i] ? static_cast<int>(graph.units.size()) : graph.operators[i].unit);
      });
  }

  TorchProgram program() {
    std::string functions, units;
    for (std::size_t u = 0; u < g_.units.size(); ++u) {
      const UnitText unit = unit_text(static_cast<int>(u));
      units += fmt::format("    ({}, {}, {}, {}, [{}], [{}]),\n", json_text(g_.units[u].name), function_of(unit, u, functions),
                           json_text(unit.path), json_text(g_.units[u].block), names_of(unit.reads), names_of(unit.makes));
    }
    TorchProgram made;
    made.text = constants() + functions + loss_text() + inputs() + tied() + values() +
                "# Units, in order: name, function, its module, block, what it reads, what it makes.\nUNITS = [\n" + units +
                "]\n";
    made.own_operators = own_operators_;
    made.dropout = dropout_;
    return made;
  }

 private:
  const Tensor& tensor(int index) const { return g_.tensors[index]; }

  // The input that the last unit alone reads holds the labels; what depends on it is the loss.
  void find_target() {
    std::map<int, int> first_reader;
    for (const Operator& op : g_.operators)
      for_each_operand(op, [&](int index) {
        if (tensor(index).role == TensorRole::Input) first_reader.emplace(index, op.unit);
      });
    const int last = static_cast<int>(g_.units.size()) - 1;
    for (const auto& [input, unit] : first_reader) {
      if (unit != last || last == 0) continue;
      if (target_ >= 0)
        throw InputError(fmt::format("torch.distributed.pipelining takes one tensor of labels, and {} reads '{}' and '{}'",
                                     g_.name, tensor(target_).name, tensor(input).name));
      target_ = input;
    }
    if (target_ < 0)
      throw InputError(fmt::format("{} has no labels that its last unit alone reads: a script cannot tell its loss", g_.name));
    std::set<int> dependent = {target_};
    for (std::size_t i = 0; i < g_.operators.size(); ++i) {
      bool depends = false;
      for_each_operand(g_.operators[i], [&](int index) { depends = depends || dependent.count(index) > 0; });
      of_loss_[i] = depends;
      if (depends) dependent.insert(g_.operators[i].outputs.begin(), g_.operators[i].outputs.end());
    }
  }

  // Names of values between units: inputs under their own, activations under their unit's.
  std::string value_name(int index) const {
    if (tensor(index).role == TensorRole::Input) return tensor(index).name;
    const int unit = made_by_[index];
    const std::string& name = g_.units[unit].name;
    int place = 0, count = 0;
    for (const int other : crossing(unit)) {
      if (other == index) place = count;
      ++count;
    }
    return place == 0 ? name : fmt::format("{}:{}", name, place);
  }
  std::string names_of(const std::vector<int>& values) const {
    std::vector<std::string> names;
    for (const int value : values) names.push_back(json_text(value_name(value)));
    return fmt::format("{}", fmt::join(names, ", "));
  }
  // The tensors of a unit that other units, or the loss, read.
  std::vector<int> crossing(int unit) const {
    std::vector<int> values;
    for (std::size_t i = 0; i < g_.operators.size(); ++i) {
      if (g_.operators[i].unit != unit || of_loss_[i]) continue;
      for (const int made : g_.operators[i].outputs)
        if (read_by_[made] > unit) values.push_back(made);
    }
    return values;
  }

  // Several units of one text share a function; another text under the same name gets a number.
  std::string function_of(const UnitText& unit, std::size_t index, std::string& functions) {
    std::string name = function_name(g_.units[index].name);
    for (int number = 2;; ++number) {
      const auto [known, added] = bodies_.emplace(name, unit.body);
      if (added) functions += fmt::format("def {}{}\n\n", name, replaced_name(unit.body, name));
      if (known->second == unit.body) return name;
      name = fmt::format("{}_{}", function_name(g_.units[index].name), number);
    }
  }
  static std::string replaced_name(std::string body, const std::string& name) {
    const std::string mark = "\n\n\nFUNCTION";
    const std::size_t at = body.find(mark);
    return body.replace(at + 3, mark.size() - 3, name);
  }

  UnitText unit_text(int unit) {
    UnitText made;
    std::vector<std::string> parameters;
    Names names;
    for (std::size_t i = 0; i < g_.operators.size(); ++i) {
      const Operator& op = g_.operators[i];
      if (op.unit != unit || of_loss_[i]) continue;
      for_each_operand(op, [&](int index) {
        const Tensor& read = tensor(index);
        if (read.role == TensorRole::Parameter && std::find(parameters.begin(), parameters.end(), read.name) == parameters.end())
          parameters.push_back(read.name);
        const bool outside = read.role == TensorRole::Input || (read.role == TensorRole::Activation && made_by_[index] != unit);
        if (outside && names.count(index) == 0) {
          names[index] = fmt::format("x{}", names.size() + 1);
          made.reads.push_back(index);
        }
      });
    }
    made.path = common_module(parameters);
    made.makes = crossing(unit);
    std::string body = "(m";
    for (const int read : made.reads) body += ", " + names[read];
    body += "):\n" + operators_text(unit, false, made.path, names);
    body += fmt::format("    return {}\n\n\nFUNCTION.parameters = {{", local_names(made.makes, names));
    for (const std::string& name : parameters) body += parameter_row(name, made.path);
    made.body = body + (parameters.empty() ? "}\n" : "\n}\n");
    return made;
  }
  std::string parameter_row(const std::string& name, const std::string& path) const {
    const auto found = std::find_if(g_.tensors.begin(), g_.tensors.end(), [&](const Tensor& t) { return t.name == name; });
    return fmt::format("\n    {}: ({}, {}),", json_text(path.empty() ? name : name.substr(path.size() + 1)),
                       tuple_of(found->full_shape), json_text(found->init));
  }
  static std::string local_names(const std::vector<int>& values, Names& names) {
    std::vector<std::string> locals;
    for (const int value : values) locals.push_back(names[value]);
    return fmt::format("{}{}", fmt::join(locals, ", "), locals.size() == 1 ? "" : ",");
  }

  std::string operators_text(int unit, bool loss, const std::string& path, Names& names) {
    std::string text;
    for (std::size_t i = 0; i < g_.operators.size(); ++i) {
      const Operator& op = g_.operators[i];
      if (loss ? !of_loss_[i] : op.unit != unit || of_loss_[i]) continue;
      const OperatorRow& row = row_of(op);
      own_operators_ = own_operators_ || is_own(row);
      dropout_ = dropout_ || row.role == OperatorRole::Dropout;
      const std::string call = call_text(op, [&](int index) { return operand(index, path, names); });
      std::vector<std::string> results;
      for (const int made : op.outputs) results.push_back(names[made] = fmt::format("x{}", names.size() + 1));
      const bool list = row.traits.list && results.size() == 1;
      text += fmt::format("    {}{} = {}\n", fmt::join(results, ", "), list ? "," : "", call);
    }
    return text;
  }
  std::string operand(int index, const std::string& path, Names& names) {
    const Tensor& read = tensor(index);
    if (read.role == TensorRole::Buffer) {
      constants_.insert(index);
      return fmt::format("constant({})", json_text(read.name));
    }
    if (read.role != TensorRole::Parameter) return names.at(index);
    return parameter_text(path.empty() ? read.name : read.name.substr(path.size() + 1), read.dtype);
  }

  std::string loss_text() {
    Names names;
    std::vector<int> reads;
    for (std::size_t i = 0; i < g_.operators.size(); ++i) {
      if (!of_loss_[i]) continue;
      if (g_.operators[i].unit + 1 != static_cast<int>(g_.units.size()))
        throw InputError(fmt::format("{} reads its labels before its last unit: a script cannot tell its loss", g_.name));
      for_each_operand(g_.operators[i], [&](int index) {
        if (tensor(index).role == TensorRole::Parameter)
          throw InputError(fmt::format("the loss of {} has parameters: a script cannot tell it from the model", g_.name));
        const std::size_t maker = tensor(index).producer < 0 ? 0 : static_cast<std::size_t>(tensor(index).producer);
        if (tensor(index).role != TensorRole::Activation || of_loss_[maker] || names.count(index) > 0) return;
        names[index] = fmt::format("x{}", names.size() + 1);
        reads.push_back(index);
      });
    }
    if (reads.size() != 1)
      throw InputError(
          fmt::format("the loss of {} reads {} results of the model; a script's loss reads one", g_.name, reads.size()));
    names[target_] = "target";
    return fmt::format("def loss_of({}, target):\n{}    return {}\n\n\n", names[reads[0]], operators_text(-1, true, "", names),
                       names[g_.loss]);
  }

  std::string constants() const {
    std::string text = "# Tensors that are not trained: shape, type, initial values.\nCONSTANTS = {\n";
    for (const int index : constants_)
      text += fmt::format("    {}: ({}, {}, {}),\n", json_text(tensor(index).name), tuple_of(tensor(index).shape),
                          torch_type(tensor(index).dtype), json_text(tensor(index).init));
    return text + "}\n\n\n";
  }

  // The number of an input seeds its synthetic values.
  std::string input_row(int index) const {
    const std::int64_t limit = integer_ranges(g_)[index].limit;
    return fmt::format("({}, {}, {}, {}, {})", json_text(tensor(index).name), index, tuple_of(tensor(index).shape),
                       torch_type(tensor(index).dtype), limit);
  }
  std::string inputs() const {
    std::string text = "# Inputs of a microbatch: name, number, shape, type, limit of its integers.\nINPUTS = [\n";
    for (const int index : g_.inputs)
      if (index != target_) text += "    " + input_row(index) + ",\n";
    return text + fmt::format("]\nTARGET = {}\n", input_row(target_));
  }
  // Between stages travel messages of these sizes.
  std::string values() const {
    std::string text = "# What units hand on: shape and type of a microbatch.\nVALUES = {\n";
    const auto add = [&](int index) {
      text += fmt::format("    {}: ({}, {}),\n", json_text(value_name(index)), tuple_of(tensor(index).shape),
                          torch_type(tensor(index).dtype));
    };
    for (const int input : g_.inputs) add(input);
    for (std::size_t u = 0; u < g_.units.size(); ++u)
      for (const int made : crossing(static_cast<int>(u))) add(made);
    return text + "}\n";
  }
  std::string tied() const {
    std::string text = "# Parameters that share the values of another one.\nTIED = {";
    for (const Tensor& parameter : g_.tensors)
      if (parameter.tied_to >= 0)
        text += fmt::format("{}: {}, ", json_text(parameter.name), json_text(tensor(parameter.tied_to).name));
    if (text.back() == ' ') text.resize(text.size() - 2);
    return text + "}\n";
  }

  const OperatorGraph& g_;
  std::vector<bool> of_loss_;
  std::vector<int> made_by_, read_by_;
  std::map<std::string, std::string> bodies_;
  std::set<int> constants_;
  int target_ = -1;
  bool own_operators_ = false, dropout_ = false;
};

}  // namespace

TorchProgram torch_program(const OperatorGraph& graph) { return Writer(graph).program(); }

}  // namespace panpipe::jobs
