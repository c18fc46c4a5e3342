#include "cli/arena_submission.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "base/error.hpp"
#include "base/files/files_read.hpp"
#include "base/input/json_input.hpp"
#include "base/input/source_text.hpp"
#include "base/option_fault.hpp"
#include "cli/selftest/child.hpp"

namespace panpipe::cli {
namespace {

constexpr const char* kSubmit = "submit";
constexpr std::size_t kMostWritten = 64 << 20;  // by a submission, of each file

// Arguments: the file, ranks, microbatches, then F:I:W of each ratio. Answers with one line of JSON on the output that it was
// given; what the file prints goes to the errors.
constexpr const char* kRunner = R"py(
import sys
sys.path[:] = [path for path in sys.path if path]  # not the current folder
sys.dont_write_bytecode = True
import importlib.util, inspect, json, os, resource, traceback
answer = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
file, ranks, microbatches, ratios = os.path.abspath(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]

def end(**found):
    json.dump(found, answer)
    answer.flush()
    os._exit(0)

def fault(error):
    lines = [at.lineno for at in traceback.extract_tb(error.__traceback__) if at.filename == file]
    text = str(error).splitlines()
    if isinstance(error, SyntaxError) and error.filename == file:
        lines, text = [error.lineno], [error.msg]
    end(fault=type(error).__name__ + (": " + text[0] if text else ""), line=lines[-1] if lines else 0)

def csv(made):
    if hasattr(made, "to_csv"):
        return made.to_csv()
    return made if isinstance(made, str) else "".join(",".join(map(str, row)) + "\n" for row in made)

try:
    spec = importlib.util.spec_from_file_location("submission", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["submission"] = module
    sys.path.insert(0, os.path.dirname(file))
    spec.loader.exec_module(module)
    order = getattr(module, "order", None)
    if not callable(order):
        end(fault="there is no function order(ranks, microbatches)", line=0)
    takes = order.takes_costs() if hasattr(order, "takes_costs") else "costs" in inspect.signature(order).parameters
    each = [dict(zip("FIW", map(float, ratio.split(":")))) for ratio in ratios] if takes else [None]
    orders = [csv(order(ranks, microbatches, costs) if takes else order(ranks, microbatches)) for costs in each]
    end(by=str(getattr(module, "BY", "")), reference=str(getattr(module, "REFERENCE", "")), orders=orders)
except BaseException as error:
    fault(error)
)py";

void take_comment(std::string_view line, std::string_view key, std::string& value) {
  if (!value.empty() || !line.starts_with("#")) return;
  line.remove_prefix(std::min(line.find_first_not_of("# "), line.size()));
  if (!line.starts_with(key)) return;
  line.remove_prefix(key.size());
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  value = line.substr(0, line.find_last_not_of(" \r") + 1);
}

Submitted read_order_file(const std::string& file) {
  Submitted submitted;
  submitted.entrant = {std::filesystem::path(file).filename().string(), "", {}, load_schedule_csv(file)};
  std::istringstream lines(read_text_file(file));
  for (std::string line; std::getline(lines, line);) {
    take_comment(line, "by:", submitted.submission.by);
    take_comment(line, "reference:", submitted.submission.reference);
  }
  return submitted;
}

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of(" \n");
  if (end == std::string::npos) return "";
  const std::size_t start = text.rfind('\n', end);
  return text.substr(start == std::string::npos ? 0 : start + 1, end - (start == std::string::npos ? 0 : start + 1) + 1);
}

// What a process writes, of any length up to a limit that the system keeps.
class WrittenText {
 public:
  WrittenText() : file_(std::tmpfile()) {
    if (file_ == nullptr) throw MachineError(std::string("cannot make a file of its own: ") + std::strerror(errno));
  }
  WrittenText(const WrittenText&) = delete;
  WrittenText& operator=(const WrittenText&) = delete;
  ~WrittenText() { std::fclose(file_); }

  void take_over(int descriptor) const { dup2(fileno(file_), descriptor); }
  std::string text() const {
    std::string text(static_cast<std::size_t>(lseek(fileno(file_), 0, SEEK_END)), '\0');
    const ssize_t got = pread(fileno(file_), text.data(), text.size(), 0);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return text;
  }

 private:
  std::FILE* file_;
};

// Its answer, which the file's own code may have written.
std::string run_python(const std::string& file, const std::vector<std::string>& arguments) {
  constexpr int kNotFound = 127;
  static constexpr const char* kNoPython = "no python3 in PATH";  // an order's own code may end with 127 too
  const WrittenText out, err;
  const ChildEnd end = run_child(
      [&]() -> int {
        const rlimit most{kMostWritten, kMostWritten};
        setrlimit(RLIMIT_FSIZE, &most);
        out.take_over(STDOUT_FILENO);
        err.take_over(STDERR_FILENO);
        std::vector<const char*> words = {"python3", "-c", kRunner};
        for (const std::string& argument : arguments) words.push_back(argument.c_str());
        words.push_back(nullptr);
        execvp("python3", const_cast<char* const*>(words.data()));
        std::fputs(kNoPython, stderr);
        std::fflush(stderr);
        _exit(kNotFound);
      },
      kSubmissionSeconds, [] {});
  const std::string answer = out.text(), errors = err.text();
  if (end.exit_code == kNotFound && errors == kNoPython)
    throw MachineError("an order in Python needs python3, which is not in PATH");
  if (end.too_long)
    throw InputError(fmt::format("{}: it runs for more than {:g} s", file, kSubmissionSeconds),
                     "a function that is not searching ends in milliseconds; hand a searched order in as CSV", code::kInvalid);
  if (answer.size() >= kMostWritten)
    throw InputError(fmt::format("{}: its orders take more than {} MiB", file, kMostWritten >> 20));
  if (answer.empty())
    throw InputError(fmt::format("{}: Python ends with code {} and no order{}", file, end.exit_code,
                                 errors.empty() ? "" : ": " + last_line(errors)));
  return answer;
}

// The answer is not to be trusted. Throws nlohmann's exceptions for another form than the runner's.
Submitted read_answer(const std::string& file, const nlohmann::json& answer, std::size_t ratios) {
  if (const auto fault = answer.find("fault"); fault != answer.end()) {
    const int line = answer.value("line", 0);
    throw InputError(line > 0 ? fmt::format("{}:{}: {}", file, line, fault->get<std::string>())
                              : fmt::format("{}: {}", file, fault->get<std::string>()),
                     "order(ranks, microbatches) returns a list of cells, such as 0F0, for each rank");
  }
  Submitted submitted;
  submitted.submission = {answer.value("by", ""), answer.value("reference", "")};
  submitted.entrant.name = std::filesystem::path(file).filename().string();
  std::vector<Schedule>& orders = submitted.entrant.by_ratio;
  for (const nlohmann::json& order : answer.at("orders"))
    orders.push_back(read_schedule_csv(order.get<std::string>(), file + ", order"));
  if (orders.size() != 1 && orders.size() != ratios)
    throw InputError(fmt::format("{}: {} orders for {} ratios of costs", file, orders.size(), ratios));
  if (orders.size() == 1) {
    submitted.entrant.order = std::move(orders.front());
    orders.clear();
  }
  return submitted;
}

Submitted read_python(const std::string& file, const app::ArenaRequest& request) {
  std::vector<study::CostRatio> ratios;
  for (const std::string& text : request.ratios) ratios.push_back(study::read_cost_ratio(text));
  if (ratios.empty()) ratios.push_back(study::cost_ratios().front());
  std::vector<std::string> arguments = {file, std::to_string(request.ranks.value_or(4)),
                                        std::to_string(request.microbatches.value_or(8))};
  for (const study::CostRatio& ratio : ratios) arguments.push_back(fmt::format("1:{}:{}", ratio.I, ratio.W));
  report_file_read(file);
  const std::string answer = run_python(file, arguments);
  try {
    return read_answer(file, parse_json<nlohmann::json>(answer, file + ", answer"), ratios.size());
  } catch (const nlohmann::json::exception&) {
    throw InputError(file + ": it answers in its own way, without an order", "return the order from order(ranks, microbatches)");
  }
}

}  // namespace

Submitted read_submission(const std::string& file, const app::ArenaRequest& request, const study::Submission& stated) {
  const bool python = file.ends_with(".py");
  if (!python && !file.ends_with(".csv"))
    throw option_fault(kSubmit, fmt::format("'{}' is neither a .csv nor a .py file", file),
                       "hand in an order as CSV, or a Python file with order(ranks, microbatches)");
  if (!std::filesystem::is_regular_file(file)) throw option_fault(kSubmit, fmt::format("there is no file '{}'", file));
  Submitted submitted = python ? read_python(file, request) : read_order_file(file);
  study::Submission& submission = submitted.submission;
  if (!stated.by.empty()) submission.by = stated.by;
  if (!stated.reference.empty()) submission.reference = stated.reference;
  for (const auto& [value, name, comment] :
       {std::tuple(&submission.by, "BY", "by"), std::tuple(&submission.reference, "REFERENCE", "reference")})
    if (value->empty())
      throw InputError(fmt::format("{}: it does not name its {}", file, name == std::string("BY") ? "author" : "reference"),
                       python ? fmt::format("write {} = \"...\" in it, or give --{}", name, comment)
                              : fmt::format("write a line '# {}: ...' in it, or give --{}", comment, comment));
  return submitted;
}

}  // namespace panpipe::cli
