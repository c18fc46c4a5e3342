#include "jobs/kineto/kineto_trace.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <set>
#include <streambuf>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/files/files_read.hpp"
#include "base/index.hpp"

namespace panpipe::jobs {
namespace {

constexpr std::size_t kMostKernels = std::size_t{1} << 24;  // 384 MiB of spans; a step of a large model has some ten thousand
constexpr long long kMostTraceBytes = 16LL << 30;           // unpacked: a small .gz can hold as much as it likes
constexpr long long kMostBetweenValues = 4LL << 20;         // of one string; longer ones are no trace's
constexpr int kDeepestTrace = 64;
constexpr std::size_t kMostNames = 1 << 16, kMostForms = 1 << 16;
constexpr double kMostMicroseconds = 1e18;

// Bytes of a file, unpacked where it is gzipped, or of a text. Too many of them are a fault of the file.
class TraceBytes : public std::streambuf {
 public:
  TraceBytes(gzFile file, std::string name) : file_(file), name_(std::move(name)), buffer_(1 << 18) {}
  TraceBytes(const std::string& text, std::string name) : name_(std::move(name)) {
    char* begin = const_cast<char*>(text.data());  // a get area is never written to
    setg(begin, begin, begin + text.size());
    total_ = static_cast<long long>(text.size());
  }

  // A value ended here.
  void value_seen() { seen_ = position(); }
  long long position() const { return total_ - (egptr() - gptr()); }
  void refuse_long_values() const {
    if (position() - seen_ > kMostBetweenValues)
      throw InputError(fmt::format("{}: a text of more than {} MiB; this is no trace", name_, kMostBetweenValues >> 20));
  }

 protected:
  int_type underflow() override {
    if (file_ == nullptr) return traits_type::eof();
    refuse_long_values();
    const int got = gzread(file_, buffer_.data(), static_cast<unsigned>(buffer_.size()));
    if (got < 0) {
      int code = 0;
      throw InputError(fmt::format("{}: cannot be unpacked: {}", name_, gzerror(file_, &code)));
    }
    if (got == 0) return traits_type::eof();
    total_ += got;
    if (total_ > kMostTraceBytes) throw InputError(fmt::format("{}: more than {} GiB, unpacked", name_, kMostTraceBytes >> 30));
    setg(buffer_.data(), buffer_.data(), buffer_.data() + got);
    return traits_type::to_int_type(*gptr());
  }

 private:
  gzFile file_ = nullptr;
  std::string name_;
  std::vector<char> buffer_;
  long long total_ = 0, seen_ = 0;
};

// An event as far as it is looked at.
struct TraceEvent {
  std::string phase, category, name, collective, type, ranks;
  double start = NAN, length = NAN;
  int device = -1, process = -1;
  long long in_elements = 0, out_elements = 0;
  int group = 0;
};

struct EventText {
  bool argument;  // stands below "args"
  std::string_view key;
  std::string TraceEvent::*field;
};
constexpr EventText kEventTexts[] = {{false, "ph", &TraceEvent::phase},  {false, "cat", &TraceEvent::category},
                                     {false, "name", &TraceEvent::name}, {true, "Collective name", &TraceEvent::collective},
                                     {true, "dtype", &TraceEvent::type}, {true, "Process Group Ranks", &TraceEvent::ranks}};

// Bytes of PyTorch's element types, as c10 names them.
long long bytes_of_type(std::string_view type) {
  if (type == "Float" || type == "Int") return 4;
  if (type == "Double" || type == "Long") return 8;
  if (type == "BFloat16" || type == "Half" || type == "Short") return 2;
  return type.empty() ? 0 : 1;
}

// Nodes on which the ranks of "[0, 1, 2, ...]" lie; 0: the list is cut off or empty.
int nodes_of(std::string_view ranks, int per_node) {
  std::set<int> nodes;
  if (ranks.find("...") != std::string_view::npos) return 0;
  for (std::size_t at = 0; at < ranks.size();) {
    int rank = 0;
    const auto [stop, fault] = std::from_chars(ranks.data() + at, ranks.data() + ranks.size(), rank);
    if (fault != std::errc()) {
      ++at;
      continue;
    }
    at = static_cast<std::size_t>(stop - ranks.data());
    nodes.insert(rank / per_node);
  }
  return static_cast<int>(nodes.size());
}

// nlohmann's events of a JSON text, as they come.
class TraceHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  TraceHandler(KinetoTrace& trace, TraceBytes& bytes, std::string name, int per_node)
      : trace_(trace), bytes_(bytes), name_(std::move(name)), per_node_(std::max(1, per_node)) {}

  bool null() override { return seen(); }
  bool boolean(bool) override { return seen(); }
  bool number_integer(number_integer_t value) override { return number(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override { return number(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool binary(binary_t&) override { return seen(); }

  bool string(string_t& value) override {
    const bool argument = in_arguments_ && depth_ == event_depth_ + 1;
    for (const EventText& text : kEventTexts)
      if ((depth_ == event_depth_ || argument) && text.argument == argument && key_ == text.key) event_.*text.field = value;
    return seen();
  }

  bool start_object(std::size_t) override {
    open();
    if (event_depth_ > 0 && depth_ == event_depth_) event_ = TraceEvent();
    if (event_depth_ > 0 && depth_ == event_depth_ + 1) in_arguments_ = key_ == "args";
    if (depth_ == 2 && event_depth_ == 0) in_world_ = key_ == "distributedInfo";
    return seen();
  }
  bool end_object() override {
    if (event_depth_ > 0 && depth_ == event_depth_) finish_event();
    if (event_depth_ > 0 && depth_ == event_depth_ + 1) in_arguments_ = false;
    if (depth_ == 2) in_world_ = false;
    --depth_;
    return seen();
  }
  bool start_array(std::size_t) override {
    open();
    if (event_depth_ == 0 && (depth_ == 1 || (depth_ == 2 && key_ == "traceEvents"))) {
      event_depth_ = depth_ + 1;
      events_seen_ = true;
    }
    return seen();
  }
  bool end_array() override {
    if (event_depth_ > 0 && depth_ == event_depth_ - 1) event_depth_ = 0;
    --depth_;
    return seen();
  }
  bool key(string_t& value) override {
    key_.swap(value);
    return seen();
  }
  bool parse_error(std::size_t position, const std::string& last, const nlohmann::detail::exception&) override {
    const std::string text = last.substr(0, 40);
    throw InputError(fmt::format("{}: byte {}: this is no JSON{}", name_, position,
                                 text.empty() ? "" : fmt::format(" (near '{}')", printable(text))));
  }

  bool events_seen() const { return events_seen_; }

 private:
  static std::string printable(std::string text) {
    for (char& c : text)
      if (static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) > '~') c = '?';
    return text;
  }
  bool seen() {
    bytes_.refuse_long_values();
    bytes_.value_seen();
    return true;
  }
  void open() {
    if (++depth_ > kDeepestTrace)
      throw InputError(fmt::format("{}: nested deeper than {}; this is no trace", name_, kDeepestTrace));
  }
  static int small(double value) { return value >= 0 && value < (1 << 24) ? static_cast<int>(value) : -1; }
  static long long large(double value) { return value >= 0 && value < 1e15 ? static_cast<long long>(value) : 0; }

  bool number(double value) {
    if (in_world_ && depth_ == 2) {
      if (key_ == "rank") trace_.rank = small(value);
      if (key_ == "world_size") trace_.world = std::max(0, small(value));
    } else if (event_depth_ > 0 && depth_ == event_depth_) {
      if (key_ == "ts")
        event_.start = value;
      else if (key_ == "dur")
        event_.length = value;
      else if (key_ == "pid")
        event_.process = small(value);
    } else if (in_arguments_ && depth_ == event_depth_ + 1) {
      if (key_ == "device")
        event_.device = small(value);
      else if (key_ == "In msg nelems")
        event_.in_elements = large(value);
      else if (key_ == "Out msg nelems")
        event_.out_elements = large(value);
      else if (key_ == "Group size")
        event_.group = std::max(0, small(value));
    }
    return seen();
  }

  void finish_event() {
    if (event_.phase != "X" || !(event_.length >= 0) || !(std::abs(event_.start) <= kMostMicroseconds) ||
        !(event_.length <= kMostMicroseconds))
      return;
    if (event_.category == "user_annotation" && event_.name.starts_with("ProfilerStep#")) return mark_step();
    if (event_.category != "kernel" && event_.category != "gpu_memcpy" && event_.category != "gpu_memset") return;
    const KernelGroup group = group_of_kernel(event_.category, event_.name, event_.collective);
    if (trace_.kernels.size() >= kMostKernels)
      throw InputError(fmt::format("{}: more than {} kernels; record fewer steps", name_, kMostKernels));
    trace_.kernels.push_back(
        {event_.start, event_.start + event_.length, std::max(0, event_.device >= 0 ? event_.device : event_.process), group});
    if (is_communication(group)) add_collective(group);
    add_name(group);
  }

  void mark_step() {
    const double end = event_.start + event_.length;
    trace_.first_step_us = trace_.steps == 0 ? event_.start : std::min(trace_.first_step_us, event_.start);
    trace_.last_step_us = trace_.steps == 0 ? end : std::max(trace_.last_step_us, end);
    ++trace_.steps;
  }

  // The full tensor is the larger side: what comes out of an all-gather, what goes into a reduce-scatter.
  void add_collective(KernelGroup group) {
    const long long bytes = std::max(event_.in_elements, event_.out_elements) * bytes_of_type(event_.type);
    const TracedForm form{group, event_.group, nodes_of(event_.ranks, per_node_), bytes};
    auto found = trace_.collectives.find(form);
    if (found == trace_.collectives.end()) {
      if (trace_.collectives.size() >= kMostForms) return;
      found = trace_.collectives.emplace(form, TracedCollectives{0, 0, event_.length}).first;
    }
    TracedCollectives& known = found->second;
    ++known.count;
    known.total_us += event_.length;
    known.least_us = std::min(known.least_us, event_.length);
  }

  void add_name(KernelGroup group) {
    auto found = trace_.names.find(event_.name);
    if (found == trace_.names.end()) {
      if (trace_.names.size() >= kMostNames || event_.name.size() > 4096) return;
      found = trace_.names.emplace(event_.name, TracedName{group, 0, 0}).first;
    }
    ++found->second.count;
    found->second.total_us += event_.length;
  }

  KinetoTrace& trace_;
  TraceBytes& bytes_;
  std::string name_, key_;
  int per_node_;
  int depth_ = 0, event_depth_ = 0;  // of events: how many brackets are open in one
  bool in_arguments_ = false, in_world_ = false, events_seen_ = false;
  TraceEvent event_;
};

KinetoTrace read_from(TraceBytes& bytes, const std::string& name, int per_node) {
  KinetoTrace trace;
  TraceHandler handler(trace, bytes, name, per_node);
  std::istream stream(&bytes);
  stream.exceptions(std::ios::badbit);  // what underflow() throws goes on
  nlohmann::json::sax_parse(stream, &handler);
  if (!handler.events_seen())
    throw InputError(fmt::format("{}: there are no 'traceEvents'", name),
                     "give what torch.profiler's export_chrome_trace writes");
  if (trace.kernels.empty())
    throw InputError(fmt::format("{}: there are no kernels among the events", name), "profile with ProfilerActivity.CUDA");
  std::sort(trace.kernels.begin(), trace.kernels.end(), [](const KernelSpan& a, const KernelSpan& b) {
    return std::tie(a.device, a.start_us, a.end_us) < std::tie(b.device, b.start_us, b.end_us);
  });
  return trace;
}

struct CloseTrace {
  void operator()(gzFile file) const { gzclose(file); }
};

}  // namespace

KinetoTrace read_kineto_trace(const std::string& path, int per_node) {
  const std::unique_ptr<gzFile_s, CloseTrace> file(gzopen(path.c_str(), "rb"));
  if (!file) throw InputError(fmt::format("{}: cannot be read", path));
  report_file_read(path);
  gzbuffer(file.get(), 1 << 18);
  TraceBytes bytes(file.get(), path == "/dev/stdin" ? "standard input" : path);
  return read_from(bytes, path == "/dev/stdin" ? "standard input" : path, per_node);
}

KinetoTrace parse_kineto_trace(const std::string& text, const std::string& name, int per_node) {
  TraceBytes bytes(text, name);
  return read_from(bytes, name, per_node);
}

std::optional<std::string> unpacked_front(const std::string& path, std::size_t most) {
  const std::unique_ptr<gzFile_s, CloseTrace> file(gzopen(path.c_str(), "rb"));
  if (!file || gzdirect(file.get()) != 0) return std::nullopt;
  std::string front(most, '\0');
  const int got = gzread(file.get(), front.data(), static_cast<unsigned>(most));
  if (got <= 0) return std::nullopt;
  front.resize(static_cast<std::size_t>(got));
  return front;
}

namespace {

// Time in which a kernel runs whose group `counts`; spans are sorted by their starts.
template <class Counts>
double covered_us(const KernelSpan* begin, const KernelSpan* end, Counts counts) {
  double covered = 0, until = -kMostMicroseconds * 4;
  for (const KernelSpan* span = begin; span != end; ++span) {
    if (!counts(span->group)) continue;
    covered += std::max(0.0, span->end_us - std::max(span->start_us, until));
    until = std::max(until, span->end_us);
  }
  return covered;
}

}  // namespace

TraceSummary summary_of(const KinetoTrace& trace, int steps) {
  TraceSummary summary;
  summary.steps = std::max(1, steps > 0 ? steps : trace.steps);
  for (auto first = trace.kernels.begin(); first != trace.kernels.end();) {
    const auto last = std::find_if(first, trace.kernels.end(), [&](const KernelSpan& s) { return s.device != first->device; });
    double begin = first->start_us, end = first->end_us;
    for (auto span = first; span != last; ++span) {
      end = std::max(end, span->end_us);
      summary.group_us[at(span->group)] += span->end_us - span->start_us;
    }
    if (trace.steps > 0) begin = std::min(begin, trace.first_step_us), end = std::max(end, trace.last_step_us);
    const KernelSpan* spans = &*first;
    const double busy = covered_us(spans, spans + (last - first), [](KernelGroup) { return true; });
    summary.busy_us += busy;
    summary.exposed_us += busy - covered_us(spans, spans + (last - first), [](KernelGroup g) { return !is_communication(g); });
    summary.step_us += end - begin;
    summary.idle_us += std::max(0.0, end - begin - busy);
    ++summary.devices;
    first = last;
  }
  const double shares = static_cast<double>(summary.steps) * std::max(1, summary.devices);
  for (double* value : {&summary.step_us, &summary.busy_us, &summary.exposed_us, &summary.idle_us}) *value /= shares;
  for (double& value : summary.group_us) value /= shares;
  return summary;
}

}  // namespace panpipe::jobs
