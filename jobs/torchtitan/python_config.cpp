#include "jobs/torchtitan/python_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/input/source_text.hpp"
#include "base/text/characters.hpp"
#include "base/text/trimmed.hpp"
#include "jobs/job.hpp"
#include "jobs/torchtitan/flavors.hpp"

namespace panpipe::jobs {
namespace {

constexpr std::size_t kMostPython = std::size_t{1} << 20, kLongestStatement = std::size_t{1} << 16;

struct Statement {
  std::string text;  // without comments and the ends of lines, trimmed
  int line = 1;
};

// Statements end at the ends of lines outside of brackets and long strings.
class PythonStatements {
 public:
  PythonStatements(const std::string& text, std::shared_ptr<const SourceText> source) : text_(text), source_(std::move(source)) {}

  std::vector<Statement> read() {
    while (at_ < text_.size()) step();
    if (depth_ > 0) fault("a bracket is not closed", current_.line);
    end();
    return std::move(statements_);
  }
  [[noreturn]] void fault(const std::string& message, int line, const std::string& help = "") const {
    Node at;
    at.source = source_;
    at.line = line, at.column = 1;
    throw InputError(std::vector{diagnostic_at(at, message, help)});
  }

 private:
  void step() {
    const char c = text_[at_];
    if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '"' || c == '\'') {
      string(c);
    } else if (c == '\n' || c == ';') {
      if (c == '\n') ++line_;
      ++at_;
      if (depth_ > 0)
        add(" ");
      else
        end();
    } else if (c == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') {
      ++line_, at_ += 2;
      add(" ");
    } else {
      if (c == '(' || c == '[' || c == '{') ++depth_;
      if ((c == ')' || c == ']' || c == '}') && --depth_ < 0) fault("a bracket closes that was not opened", line_);
      add(std::string_view(text_).substr(at_++, 1));
    }
  }
  void string(char quote) {
    const bool is_long = text_.compare(at_, 3, std::string(3, quote)) == 0;
    const std::string end(is_long ? 3 : 1, quote);
    std::size_t stop = at_ + end.size();
    while (stop < text_.size() && text_.compare(stop, end.size(), end) != 0) stop += text_[stop] == '\\' ? 2 : 1;
    if (stop >= text_.size()) fault("a string is not closed", line_);
    const std::string whole = text_.substr(at_, stop + end.size() - at_);
    add(whole);
    line_ += static_cast<int>(std::count(whole.begin(), whole.end(), '\n'));
    at_ = stop + end.size();
  }
  void add(std::string_view text) {
    if (trimmed(current_.text).empty() && !trimmed(text).empty()) current_ = {"", line_};
    current_.text += text;
    if (current_.text.size() > kLongestStatement) fault("a statement of more than 64 KiB", current_.line);
  }
  void end() {
    current_.text = std::string(trimmed(current_.text));
    if (!current_.text.empty()) statements_.push_back(std::move(current_));
    current_ = {"", line_};
  }

  const std::string& text_;
  std::shared_ptr<const SourceText> source_;
  std::size_t at_ = 0;
  int line_ = 1, depth_ = 0;
  Statement current_;
  std::vector<Statement> statements_;
};

bool is_name(std::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

// "F()" -> "F"; otherwise empty.
std::string called_without_arguments(const std::string& value) {
  return value.ends_with("()") && is_name(value.substr(0, value.size() - 2)) ? value.substr(0, value.size() - 2) : "";
}

class PythonConfig {
 public:
  PythonConfig(const std::string& text, const std::string& name) {
    auto source = std::make_shared<SourceText>(SourceText{name, ".", {}});
    text_ = checked_text(text, *source);
    source_ = source;
  }

  NodePtr keys() {
    PythonStatements statements(text_, source_);
    reader_ = &statements;
    for (const Statement& statement : statements.read()) read(statement);
    if (!returned_) statements.fault("no function here returns a configuration", 1);
    auto root = std::make_shared<Node>();
    root->kind = NodeKind::Map;
    root->source = source_;
    root->line = root->column = 1;
    for (auto& [path, node] : values_) root->entries.push_back({path, node->line, 1, node});
    return root;
  }

 private:
  [[noreturn]] void only_a_run_tells(const Statement& statement) const {
    reader_->fault(fmt::format("only a run can tell what this does: {}", one_line(statement.text)), statement.line,
                   "nothing is run here: python -m panpipe.capture torchtitan prints the configuration for import");
  }

  void read(const Statement& statement) {
    const std::string& text = statement.text;
    if (text.starts_with("\"") || text.starts_with("'") || text.starts_with("import ")) return;
    if (text.starts_with("from ")) return read_import(text);
    if (text.starts_with("def ") && text.ends_with(":")) return open_function(statement);
    if (text.starts_with("return ") && trimmed(text.substr(7)) == variable_ && !variable_.empty()) {
      returned_ = true;
      return;
    }
    const std::size_t equals = text.find('=');
    if (returned_ || equals == std::string::npos) only_a_run_tells(statement);
    assign(statement, std::string(trimmed(text.substr(0, equals))), std::string(trimmed(text.substr(equals + 1))));
  }

  // "from torchtitan.models.llama3.config_registry import llama3_8b as base"
  void read_import(const std::string& text) {
    const std::size_t begin = 5, middle = text.find(" import ");
    if (middle == std::string::npos) return;
    const std::string module(trimmed(text.substr(begin, middle - begin)));
    constexpr std::string_view kModels = "torchtitan.models.", kRegistry = ".config_registry";
    if (!module.starts_with(kModels) || !module.ends_with(kRegistry)) return;
    const std::string family = module.substr(kModels.size(), module.size() - kModels.size() - kRegistry.size());
    std::string names = text.substr(middle + 8);
    std::erase_if(names, [](char c) { return c == '(' || c == ')'; });
    for (const std::string& one : split_text(names, ',')) {
      const std::size_t as = one.find(" as ");
      const std::string name(trimmed(one.substr(0, as)));
      if (name.empty()) continue;  // behind a last comma
      functions_[as == std::string::npos ? name : std::string(trimmed(one.substr(as + 4)))] = {family, name};
    }
  }

  void open_function(const Statement& statement) {
    if (in_function_) reader_->fault("a second function: it is not known which one the job takes", statement.line);
    in_function_ = true;
  }

  void assign(const Statement& statement, const std::string& target, const std::string& value) {
    if (is_name(target) && variable_.empty() && in_function_) {
      const auto known = functions_.find(called_without_arguments(value));
      if (known == functions_.end()) only_a_run_tells(statement);
      variable_ = target;
      return begin_with(statement, known->second.first, known->second.second);
    }
    if (variable_.empty() || !target.starts_with(variable_ + ".")) only_a_run_tells(statement);
    const std::string path = target.substr(variable_.size() + 1);
    if (path == "activation_checkpoint") return set_recompute(statement, value);
    if (path == "model_spec") return set_model(statement, value);
    if (const std::string key = optimizer_key(path); !key.empty()) return set(statement, key, value);
    if (!std::all_of(path.begin(), path.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '.'; }))
      only_a_run_tells(statement);
    set(statement, path, value);
  }

  // Of the group of parameters that shipped configurations have.
  static std::string optimizer_key(const std::string& path) {
    constexpr std::string_view kGroup = "optimizer.param_groups[0].";
    if (!path.starts_with(kGroup)) return "";
    const std::string rest = path.substr(kGroup.size());
    if (rest == "optimizer_name") return "optimizer.name";
    constexpr std::string_view kNumber = "optimizer_kwargs[";
    if (!rest.starts_with(kNumber) || rest.size() < kNumber.size() + 4 || !rest.ends_with(']')) return "";
    const std::string key = rest.substr(kNumber.size() + 1, rest.size() - kNumber.size() - 3);
    return is_name(key) ? "optimizer." + key : "";
  }

  void begin_with(const Statement& statement, const std::string& family, const std::string& function) {
    for (const TorchtitanFlavor& flavor : torchtitan_flavors()) {
      if (flavor.model != family || flavor.function != function) continue;
      const NodePtr settings = parse_document(flavor.settings, function + "()", ".");
      for (const Node::Entry& entry : settings->entries) {
        if (entry.key == "activation_checkpoint")
          set_recompute(statement, entry.value->text + ".Config()");
        else if (entry.key == "model.converters")
          set(statement, entry.key, "[\"quantize.linear.float8\"]");
        else
          put(entry.key, entry.value, statement.line);
      }
      set(statement, "model.name", "\"" + family + "\"");
      return set(statement, "model.flavor", "\"" + flavor.flavor + "\"");
    }
    reader_->fault(fmt::format("the configuration {} of {} is not known here", one_line(function), one_line(family)),
                   statement.line, "python -m panpipe.capture torchtitan prints it for import");
  }

  void set_recompute(const Statement& statement, const std::string& value) {
    const std::pair<const char*, const char*> modes[] = {
        {"None", "none"}, {"FullAC.Config()", "full"}, {"SelectiveAC.Config()", "selective"}};
    const auto known = std::find_if(std::begin(modes), std::end(modes), [&](const auto& mode) { return value == mode.first; });
    if (known == std::end(modes) && !value.starts_with("MemoryBudgetAC.Config(")) only_a_run_tells(statement);
    set(statement, "activation_checkpoint.mode", known == std::end(modes) ? "memory_budget" : known->second);
    if (known != std::end(modes) && known->second == std::string("selective"))
      set(statement, "activation_checkpoint.selective_ac_option", "op");
  }

  // model_registry("8B", converters=[Float8LinearConverter.Config(...)])
  void set_model(const Statement& statement, const std::string& value) {
    constexpr std::string_view kCall = "model_registry(";
    const std::size_t begin = kCall.size() + 1, end = value.find_first_of("\"'", begin);
    if (!value.starts_with(kCall) || !value.ends_with(')') || end == std::string::npos) only_a_run_tells(statement);
    set(statement, "model.flavor", fmt::format("\"{}\"", value.substr(begin, end - begin)));
    values_.erase("model.converters");
    const std::string rest = value.substr(end);
    std::string converters;
    for (const auto& [name, converter] :
         {std::pair{"Float8LinearConverter", "quantize.linear.float8"}, std::pair{"MXFP8LinearConverter", "quantize.linear.mx"},
          std::pair{"NVFP4LinearConverter", "quantize.linear.nvfp4"}})
      if (rest.find(name) != std::string::npos) converters += fmt::format("{}\"{}\"", converters.empty() ? "" : ", ", converter);
    if (!converters.empty()) set(statement, "model.converters", "[" + converters + "]");
  }

  void set(const Statement& statement, const std::string& path, const std::string& value) {
    if (value == "None") {
      auto node = std::make_shared<Node>();
      return put(path, node, statement.line);
    }
    std::string literal = value == "True" ? "true" : value == "False" ? "false" : value;
    if (literal.starts_with("(") && literal.ends_with(")")) literal = fmt::format("[{}]", literal.substr(1, literal.size() - 2));
    const std::string_view start = std::string_view(literal).substr(0, 1);
    const bool plain =
        is_name(literal) && literal != "true" && literal != "false" && path.find("activation") == std::string::npos;
    const bool number = std::isdigit(static_cast<unsigned char>(literal[0])) != 0 || start == "-" || start == ".";
    if (literal.empty() || plain || (number && literal.find_first_not_of("0123456789.eE+-_") != std::string::npos) ||
        (start != "[" && literal.find('(') != std::string::npos))
      only_a_run_tells(statement);
    if (number) std::erase(literal, '_');
    NodePtr node;
    try {
      node = parse_document(literal, source_->name, ".");
    } catch (const InputError&) {
      only_a_run_tells(statement);
    }
    put(path, node, statement.line);
  }

  void put(const std::string& path, const NodePtr& node, int line) {
    place(*node, line);
    values_[path] = node;
  }
  void place(Node& node, int line) {
    node.source = source_;
    node.line = line, node.column = 1;
    for (const NodePtr& item : node.items) place(*item, line);
    for (const Node::Entry& entry : node.entries) place(*entry.value, line);
  }

  std::string text_;
  std::shared_ptr<const SourceText> source_;
  const PythonStatements* reader_ = nullptr;
  std::map<std::string, std::pair<std::string, std::string>> functions_;  // by name here: family, function
  std::map<std::string, NodePtr> values_;
  std::string variable_;
  bool in_function_ = false, returned_ = false;
};

}  // namespace

bool is_python(const std::string& text) {
  std::size_t line = 0;
  while (line < text.size()) {
    for (const char* word : {"import ", "from ", "def ", "class ", "@"})
      if (text.compare(line, std::string_view(word).size(), word) == 0) return true;
    const std::size_t end = text.find('\n', line);
    if (end == std::string::npos) break;
    line = end + 1;
  }
  return false;
}

NodePtr read_python_config(const std::string& text, const std::string& name) {
  if (text.size() > kMostPython) throw InputError(fmt::format("{}: a job's configuration of more than 1 MiB is none", name));
  return PythonConfig(text, name).keys();
}

}  // namespace panpipe::jobs
