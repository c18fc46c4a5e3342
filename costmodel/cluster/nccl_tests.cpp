#include "costmodel/cluster/nccl_tests.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <tuple>

#include "base/input/error_with_caret.hpp"
#include "base/input/reader.hpp"
#include "base/input/source_text.hpp"
#include "base/text/quantity_text.hpp"

namespace panpipe {
namespace {

struct Program {
  const char* name;
  const char* kind;
};
constexpr Program kPrograms[] = {
    {"all_reduce_perf", "all_reduce"}, {"all_gather_perf", "all_gather"}, {"reduce_scatter_perf", "reduce_scatter"},
    {"broadcast_perf", "broadcast"},   {"sendrecv_perf", "send_recv"},    {"alltoall_perf", "all_to_all"}};

// The kind of the program that a text names; nothing, or the name of one whose figures are not used ("reduce_perf").
std::string kind_named_in(const std::string& text, std::string* other = nullptr) {
  static const std::regex kName(R"(([a-z_]+_perf))");
  std::smatch match;
  if (!std::regex_search(text, match, kName)) return "";
  for (const Program& program : kPrograms)
    if (match[1].str().ends_with(program.name)) return program.kind;
  if (other != nullptr) *other = match[1];
  return "";
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool is_whole_number(const std::string& word) {
  return !word.empty() && word.size() < 19 &&
         std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c); });
}

class NcclTestsReader {
 public:
  NcclTestsReader(const std::string& text, const std::string& name, const NcclTestsHints& hints)
      : source_(std::make_shared<SourceText>()), hints_(hints) {
    source_->name = name;
    checked_text(text, *source_);
  }

  std::vector<NcclTestsRun> read() {
    for (line_ = 1; line_ <= static_cast<int>(source_->lines.size()); ++line_) {
      // mpirun --tag-output puts [job,rank]<stream>: before each line.
      static const std::regex kTag(R"(^\s*\[\d+,\d+\]<std\w+>:?\s*)");
      const std::string text = std::regex_replace(source_->lines[static_cast<std::size_t>(line_) - 1], kTag, "");
      read_line(text);
    }
    finish_run();
    if (runs_.empty())
      fail(0, "", "no output of nccl-tests in this text", "its table has a header line: # size count type redop ...");
    return std::move(runs_);
  }

 private:
  [[noreturn]] void fail(int line, const std::string& word, const std::string& message, const std::string& help) const {
    throw InputError({diagnostic_at_word(*source_, line, word, message, help)});
  }

  void read_line(const std::string& text) {
    std::smatch match;
    static const std::regex kVersion(R"(^# nccl-tests version (\S+).*nccl-library=(\d+))");
    static const std::regex kStart(R"(^#\s*nThread\s+\d+)");
    static const std::regex kRank(
        R"(^#\s*Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+\d+\s+\[[^\]]*\]\s*(.*\S)?)");
    static const std::regex kNccl(R"(NCCL version (\d[\w.+-]*))");
    if (std::regex_search(text, match, kVersion)) {
      finish_run();
      now_.tests = match[1];
      const int code = std::stoi(match[2]);
      now_.nccl = fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
    } else if (std::regex_search(text, match, kNccl)) {
      now_.nccl = match[1];
    } else if (std::regex_search(text, kStart)) {
      if (started_) finish_run();
      started_ = true;
    } else if (std::regex_search(text, match, kRank)) {
      started_ = true;
      ranks_[match[2].matched ? std::stoi(match[2]) : 0].push_back(match[3]);
      if (match[4].matched) now_.device = match[4];
    } else if (const auto words = words_of(text); is_header(words)) {
      read_header(words);
    } else if (!columns_.empty() && words.size() > 4 && is_whole_number(words[0]) && is_whole_number(words[1])) {
      if (words.size() < columns_.size())
        fail(line_, "", fmt::format("this row has {} cells, the header names {} columns", words.size(), columns_.size()),
             "the text was cut off or wrapped");
      read_row(words);
    } else if (!words.empty() && kind_.empty() && rows_.empty()) {
      kind_ = kind_named_in(text, &other_);
    }
  }

  static bool is_header(const std::vector<std::string>& words) {
    return words.size() > 5 && words[0] == "#" && words[1] == "size" && words[2] == "count";
  }

  // Names of the columns: size count type [redop] [root] time algbw busbw error, and the last four again.
  void read_header(const std::vector<std::string>& words) {
    if (!rows_.empty()) finish_run();
    header_ = line_;
    columns_.assign(words.begin() + 1, words.end());
    while (!columns_.empty() && columns_.back() == "timestamp") columns_.pop_back();
    times_.clear();
    for (std::size_t i = 0; i < columns_.size(); ++i)
      if (columns_[i] == "time") times_.push_back(i);
    if (times_.empty())
      fail(line_, "", "no column 'time' in the header of nccl-tests", "processor times (-C 1) say nothing of the collective");
  }

  std::optional<std::size_t> column(const std::string& name) const {
    const auto found = std::find(columns_.begin(), columns_.end(), name);
    if (found == columns_.end()) return std::nullopt;
    return static_cast<std::size_t>(found - columns_.begin());
  }

  // Nothing where a program does not run one of the two ways (N/A).
  std::optional<double> time_at(const std::vector<std::string>& words, std::size_t place) const {
    if (words[place] == "N/A") return std::nullopt;
    const Parsed<double> parsed = parse_number(words[place]);
    if (!parsed.value || !(*parsed.value > 0) || !std::isfinite(*parsed.value))
      fail(line_, words[place], fmt::format("'{}' is no time in microseconds", words[place]),
           "leave out rows that were not measured");
    return *parsed.value;
  }

  void read_row(const std::vector<std::string>& words) {
    const long long size = std::stoll(words[0]);
    if (size == 0) return;  // too few bytes for a share of each rank
    Row row{size, time_at(words, times_[0]), std::nullopt, 0, "", ""};
    if (times_.size() > 1) row.in_place = time_at(words, times_[1]);
    if (const auto bus = column("busbw"), algorithm = column("algbw"); bus && algorithm) {
      const Parsed<double> b = parse_number(words[*bus]), a = parse_number(words[*algorithm]);
      if (b.value && a.value && *a.value >= 1) row.factor = *b.value / *a.value;
    }
    if (const auto place = column("redop")) row.operation = words[*place];
    if (const auto place = column("root")) row.root = words[*place];
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i] != "#wrong") continue;
      if (const Parsed<double> wrong = parse_number(words[i]); wrong.value && *wrong.value > 0)
        now_.warnings.push_back(fmt::format("{}:{}: {} wrong elements in this row: its time is taken, but look at the machine",
                                            source_->name, line_, words[i]));
    }
    rows_.push_back(std::move(row));
  }

  // By program, else by the text's name, else by the operation and by bus over algorithm bandwidth, where they leave one kind.
  std::string kind_of_run() const {
    if (!hints_.kind.empty()) return hints_.kind;
    if (!kind_.empty()) return kind_;
    const std::string& name = source_->name;
    if (const std::string kind = kind_named_in(name.substr(name.find_last_of('/') + 1)); !kind.empty()) return kind;
    const std::string help = "say it: --kind all_gather; there are " + list_of(collective_kinds());
    if (!other_.empty()) fail(header_, "", fmt::format("'{}' is no collective that tables know", other_), help);
    const Row& last = rows_.back();
    const auto is = [&](const char* kind) { return std::abs(last.factor / bus_factor(kind, now_.ranks) - 1) < 0.02; };
    if (last.operation != "none" && last.operation != "" && (last.root.empty() || last.root == "-1")) {
      if (is("all_reduce")) return "all_reduce";
      if (is("reduce_scatter")) return "reduce_scatter";
    }
    fail(header_, "", "this text does not say which collective was measured", help);
  }

  void finish_run() {
    if (!rows_.empty()) {
      now_.source = source_->name;
      count_ranks();
      now_.kind = kind_of_run();
      const bool in_place = now_.kind == "all_reduce";
      for (const Row& row : rows_) {
        const auto first = in_place ? row.in_place : row.out_of_place, second = in_place ? row.out_of_place : row.in_place;
        if (const auto time = first ? first : second) now_.rows.emplace_back(Bytes(row.size), micros(*time));
      }
      if (now_.rows.empty()) fail(header_, "", "no row of this table has a time", "");
      runs_.push_back(std::move(now_));
    } else if (!columns_.empty()) {
      fail(header_, "", "no rows follow this header", "the run ended before its first size");
    }
    now_ = {};
    rows_.clear();
    columns_.clear();
    times_.clear();
    ranks_.clear();
    kind_.clear();
    other_.clear();
    started_ = false;
  }

  void count_ranks() {
    const std::vector<std::string> hosts = ranks_.empty() ? std::vector<std::string>() : ranks_.begin()->second;
    now_.hosts = hosts;
    now_.ranks = hints_.ranks.value_or(static_cast<int>(hosts.size()));
    now_.nodes = hints_.nodes.value_or(static_cast<int>(std::set<std::string>(hosts.begin(), hosts.end()).size()));
    if (now_.ranks == 0 || now_.nodes == 0)
      fail(header_, "", "no line '# Rank ... on HOST device N' before this table: how many ranks were there?",
           "say it: --ranks 16 --nodes 2");
    if (now_.ranks < 2)
      fail(header_, "", "one rank has nobody to talk to", "run nccl-tests over two or more: -g 8, or mpirun -np 16");
    if (now_.ranks % now_.nodes != 0)
      fail(header_, "", fmt::format("{} ranks do not lie evenly on {} nodes", now_.ranks, now_.nodes),
           "a table is for groups with equally many ranks on each node");
  }

  struct Row {
    long long size = 0;
    std::optional<double> out_of_place, in_place;  // microseconds
    double factor = 0;                             // bus over algorithm bandwidth; 0: too small to measure
    std::string operation, root;
  };

  std::shared_ptr<SourceText> source_;
  const NcclTestsHints& hints_;
  int line_ = 0, header_ = 0;
  bool started_ = false;
  std::string kind_, other_;
  std::map<int, std::vector<std::string>> ranks_;  // per group: hosts
  std::vector<std::string> columns_;
  std::vector<std::size_t> times_;
  std::vector<Row> rows_;
  NcclTestsRun now_;
  std::vector<NcclTestsRun> runs_;
};

}  // namespace

std::vector<NcclTestsRun> parse_nccl_tests(const std::string& text, const std::string& name, const NcclTestsHints& hints) {
  return NcclTestsReader(text, name, hints).read();
}

CollectiveTables tables_of(const std::vector<NcclTestsRun>& runs) {
  std::map<std::tuple<std::string, int, int>, std::map<Bytes, std::vector<Duration>>> times;
  std::set<std::string> devices, hosts, versions, programs;
  for (const NcclTestsRun& run : runs) {
    for (const auto& [size, time] : run.rows) times[{run.kind, run.ranks, run.nodes}][size].push_back(time);
    hosts.insert(run.hosts.begin(), run.hosts.end());
    if (!run.device.empty()) devices.insert(run.device);
    if (!run.nccl.empty()) versions.insert(run.nccl);
    if (!run.tests.empty()) programs.insert(run.tests);
  }
  CollectiveTables result;
  const auto note = [&](const std::string& key, const std::set<std::string>& values) {
    if (!values.empty()) result.measured[key] = fmt::format("{}", fmt::join(values, ", "));
  };
  note("device", devices);
  note("hosts", hosts);
  note("nccl", versions);
  note("nccl-tests", programs);
  for (auto& [form, sizes] : times) {
    CollectiveTable table{std::get<0>(form), std::get<1>(form), std::get<2>(form), {}};
    for (auto& [size, measured] : sizes) {
      std::sort(measured.begin(), measured.end());
      const Duration low = measured[(measured.size() - 1) / 2], high = measured[measured.size() / 2];
      table.times.points.emplace_back(size, (low + high) / 2.0);
    }
    result.tables.push_back(std::move(table));
  }
  return result;
}

}  // namespace panpipe
