#include "exec/engine/profile/link_profiler.hpp"

#include <ATen/Functions.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <time.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "exec/engine/measure/gathered.hpp"
#include "exec/engine/profile/robust_median.hpp"
#include "exec/engine/profile/stopwatch.hpp"
#include "exec/engine/stage/operator_program.hpp"

namespace panpipe::exec {
namespace {

constexpr std::uint32_t kTag = 0xFFFFF000U, kAgainTag = 0xFFFFF001U;  // far from the tags of a step's messages
constexpr const char* kMeasuring = "measuring messages";
constexpr const char* kSumming = "measuring sums";
constexpr int kMostRanksForAllPairs = 8;

const std::vector<std::int64_t>& message_sizes() {
  static const std::vector<std::int64_t> sizes = {0, 1 << 10, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26};
  return sizes;
}

at::Tensor message(std::int64_t bytes, at::Device device) {
  return at::zeros({bytes / 4}, at::TensorOptions().dtype(at::kFloat).device(device));
}

// Fewer repetitions of what takes long: 64 MiB over a socket is some ten milliseconds.
int repetitions_for(std::int64_t bytes, int repetitions) {
  return std::max(5, bytes > (4 << 20) ? repetitions / 4 : repetitions);
}

// Transports that give a device its messages as work of its streams: a run is ahead of its device, and what the host does for a
// message (over NCCL: to announce it) is hidden. Over Gloo tensors pass through the host, which waits for the device.
bool ahead_of(const Transport& transport, at::Device device) {
  return !device.is_cpu() && std::string_view(transport.name()) != "gloo";
}

void send(Transport& transport, const at::Tensor& value, int to) { transport.send(value, to, kTag)->wait(kTimeout, kMeasuring); }

void take(Transport& transport, std::int64_t bytes, int from, at::Device device) {
  transport.receive({{bytes / 4}, at::kFloat, device}, from, kTag)->wait(kTimeout, kMeasuring);
  Stopwatch(device).wait();  // a device's transports return before the data are there
}

// Seconds that this rank has computed: the whole process, with the transport's threads, where a rank is one.
double computed_seconds(const Transport& transport) {
  timespec time{};
  clock_gettime(std::string_view(transport.name()) == "local" ? CLOCK_THREAD_CPUTIME_ID : CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Work that keeps a device busy while the host gives it what is to be timed.
class HeadStart {
 public:
  explicit HeadStart(at::Device device)
      : from_(at::zeros({kBytes}, at::TensorOptions(at::kByte).device(device))),
        to_(at::empty_like(from_)),
        passed_(device.type()) {}
  void give() {
    for (int i = 0; i < rounds_; ++i) to_.copy_(from_);
    passed_.record(c10::impl::VirtualGuardImpl(to_.device().type()).getStream(to_.device()));
  }
  // After the host gave out the work: whether the device has come to it before, so that the next head start must be longer.
  bool too_short() {
    if (rounds_ >= kMostRounds || !passed_.query()) return false;
    rounds_ *= 2;
    return true;
  }
  void lengthen() { rounds_ = std::min(2 * rounds_, kMostRounds); }

 private:
  static constexpr std::int64_t kBytes = 16 << 20;
  static constexpr int kMostRounds = 1 << 12;  // about 0.1 s of a GPU that moves 1 TB/s
  at::Tensor from_, to_;
  c10::Event passed_;
  int rounds_ = 4;
};

// Seconds of what is timed by this rank's device, which is behind its host: `repetitions` samples, without two to warm up. `turn`
// gives the device one sample's work, and times it with the function that it is called with. A rank that `leads` gives a head
// start before; a turn counts if the head start outlasted the host's work. `agree`: whether any rank that takes part begins anew.
template <class Turn, class Agree>
std::vector<double> device_samples(at::Device device, int repetitions, bool leads, Turn turn, Agree agree) {
  HeadStart head_start(device);
  Stopwatch watch(device);
  std::vector<double> samples, kept;
  for (int i = -2; i < repetitions;) {
    if (leads) head_start.give();
    bool mine = false;
    turn([&](auto work) {
      watch.time(samples, work);
      mine = leads && head_start.too_short();
    });
    watch.read();
    watch.wait();
    const bool again = agree(mine);
    if (again && !mine) head_start.lengthen();
    if (!again && ++i > 0) kept.push_back(samples.back());
  }
  return kept;
}

struct RoundTrips {
  std::vector<double> one_way, work;  // half of what a round trip takes, and of what this rank computes for it
};

// As either of the pair sees it.
RoundTrips ping_pong(Transport& transport, int first, int second, std::int64_t bytes, int repetitions, at::Device device) {
  RoundTrips trips;
  const at::Tensor value = message(bytes, device);
  const bool asks = transport.rank() == first;
  const int other = asks ? second : first;
  for (int i = -2; i < repetitions; ++i) {  // two to warm up
    const double computed = computed_seconds(transport);
    const auto start = Clock::now();
    if (asks) send(transport, value, other);
    take(transport, bytes, other, device);
    if (!asks) send(transport, value, other);
    const double seconds = seconds_since(start), work = computed_seconds(transport) - computed;
    if (i < 0) continue;
    trips.one_way.push_back(seconds / 2);
    trips.work.push_back(work / 2);
  }
  return trips;
}

// Round trips that a device does one after the other, of messages of so many bytes: several of small ones, because the device's
// clock ticks in half microseconds (NVIDIA, cudaEventElapsedTime).
int trips_of(std::int64_t bytes) {
  return static_cast<int>(std::clamp<std::int64_t>((16 << 20) / std::max<std::int64_t>(bytes, 1), 1, 8));
}

// Seconds one way by the first rank's device. The first rank decides whether a turn is taken again.
std::vector<double> device_round_trips(Transport& transport, int first, int second, std::int64_t bytes, int repetitions,
                                       at::Device device) {
  const at::Tensor value = message(std::max<std::int64_t>(bytes, 4), device);  // a run sends nothing empty
  const int trips = trips_of(bytes), me = transport.rank(), other = me == first ? second : first;
  const TensorSpec expected{value.sizes().vec(), value.scalar_type(), device};
  const auto agree = [&](bool again) {
    if (me == first)
      return transport.send(at::full({1}, again ? 1 : 0, at::kInt), other, kAgainTag)->wait(kTimeout, kMeasuring), again;
    const PendingPtr word = transport.receive({{1}, at::kInt, at::kCPU}, other, kAgainTag);
    word->wait(kTimeout, kMeasuring);
    return word->value.item<int>() == 1;
  };
  const auto turn = [&](auto timed) {
    std::vector<PendingPtr> sent;
    const auto take_one = [&] { transport.receive(expected, other, kTag)->wait(kTimeout, kMeasuring); };
    timed([&] {
      for (int trip = 0; trip < trips; ++trip) {
        if (me != first) take_one();
        sent.push_back(transport.send(value, other, kTag));
        if (me == first) take_one();
      }
    });
    for (const PendingPtr& one : sent) one->wait(kTimeout, kMeasuring);
  };
  std::vector<double> samples = device_samples(device, repetitions, me == first, turn, agree);
  for (double& sample : samples) sample /= 2 * trips;
  return samples;
}

std::vector<std::pair<int, int>> pairs(int ranks) {
  std::vector<std::pair<int, int>> all;
  for (int a = 0; a < ranks; ++a)
    for (int b = a + 1; b < ranks; ++b)
      if (ranks <= kMostRanksForAllPairs || b == a + 1) all.emplace_back(a, b);
  return all;
}

// Sums by the devices' clocks. A sum of one element lets them begin together.
std::vector<double> device_sums(Transport& transport, const Group& group, const at::Tensor& value, int repetitions) {
  const at::Tensor word = message(4, value.device());
  const auto sum = [&](const at::Tensor& over) { transport.all_reduce(over, group)->wait(kTimeout, kSumming); };
  const auto turn = [&](auto timed) {
    sum(word);
    timed([&] { sum(value); });
  };
  const auto agree = [&](bool mine) {  // ranks begin anew together
    const std::vector<int> all = gathered(transport, mine ? 1 : 0, kTimeout, kSumming);
    return std::find(all.begin(), all.end(), 1) != all.end();
  };
  return device_samples(value.device(), repetitions, true, turn, agree);
}

using Times = std::vector<std::pair<std::int64_t, double>>;  // (bytes, seconds)

// Of the rank that measured, on every rank.
TransferTable shared_table(Transport& transport, const Times& mine, int owner) {
  TransferTable table;
  const std::vector<Times> all = gathered(transport, mine, kTimeout, "gathering what was measured");
  for (const auto& [bytes, time] : all[owner]) table.points.emplace_back(Bytes(bytes), seconds(time));
  // A smaller message is not slower, and noise only adds.
  for (std::size_t i = table.points.size(); i-- > 1;)
    table.points[i - 1].second = std::min(table.points[i].second, table.points[i - 1].second);
  return table;
}

}  // namespace

MeasuredMessages measure_transfers(Transport& transport, int repetitions, at::Device device) {
  MeasuredMessages found;
  for (const auto& [first, second] : pairs(transport.size())) {
    transport.barrier(kTimeout, "measuring messages");
    Times times, work;
    if (transport.rank() == first || transport.rank() == second) {
      for (const std::int64_t bytes : message_sizes()) {
        const int count = repetitions_for(bytes, repetitions);
        const RoundTrips trips =
            ahead_of(transport, device)
                ? RoundTrips{device_round_trips(transport, first, second, bytes, count, device), std::vector<double>(1, 0.0)}
                : ping_pong(transport, first, second, bytes, count, device);
        times.emplace_back(bytes, robust_median(trips.one_way).median);
        work.emplace_back(bytes, robust_median(trips.work).median);
      }
    }
    const TransferTable table = shared_table(transport, times, first), computed = shared_table(transport, work, first);
    if (transport.rank() != 0) continue;
    found.transfers.push_back({transport.name(), first, second, table});
    found.transfers.push_back({transport.name(), second, first, table});
    if (device.is_cpu() && !found.work) found.work = ProfiledCollective{"message", 2, computed};
  }
  return found;
}

std::vector<ProfiledCollective> measure_collectives(Transport& transport, int repetitions, int members, at::Device device) {
  if (members < 2 || transport.size() % members != 0) return {};
  Group mine_group;
  for (int first = 0; first < transport.size(); first += members) {  // every rank makes every group
    std::vector<int> ranks(members);
    std::iota(ranks.begin(), ranks.end(), first);
    const Group group = transport.make_group(ranks);
    if (transport.rank() / members == first / members) mine_group = group;
  }
  Times mine;
  for (const std::int64_t bytes : message_sizes()) {
    if (bytes == 0) continue;
    const at::Tensor value = message(bytes, device);
    std::vector<double> samples;
    if (ahead_of(transport, device)) samples = device_sums(transport, mine_group, value, repetitions_for(bytes, repetitions));
    for (int i = -2; i < repetitions_for(bytes, repetitions) && !ahead_of(transport, device); ++i) {
      transport.barrier(kTimeout, kSumming);
      const auto start = Clock::now();
      transport.all_reduce(value, mine_group)->wait(kTimeout, kSumming);
      Stopwatch(device).wait();
      if (i >= 0) samples.push_back(seconds_since(start));
    }
    mine.emplace_back(bytes, robust_median(samples).median);
  }
  const TransferTable table = shared_table(transport, mine, 0);
  if (transport.rank() != 0) return {};
  return {{"all_reduce", members, table}};
}

double measure_memory_bandwidth(at::Device device) {
  constexpr std::int64_t kBytes = 128 << 20;  // larger than the last-level caches of most processors and GPUs
  const at::TensorOptions options = at::TensorOptions().dtype(at::kByte).device(device);
  const at::Tensor from = at::zeros({kBytes}, options), to = at::zeros({kBytes}, options);
  return 2.0 * static_cast<double>(kBytes) / median_seconds(device, 7, [&] { to.copy_(from); });
}

double measure_launch(at::Device device) {
  constexpr int kOperators = 500;
  OperatorGraph graph;
  Tensor scalar;
  scalar.dtype = DType::Float32;
  scalar.shape = {1};
  scalar.role = TensorRole::Parameter;
  graph.tensors.push_back(scalar);
  scalar.role = TensorRole::Activation;
  for (int i = 0; i < kOperators; ++i) {
    scalar.producer = i;
    graph.tensors.push_back(scalar);
    Operator op;
    op.target = "aten::mul.Tensor";
    op.arguments = {TensorRef{i}, TensorRef{0}};
    op.outputs = {i + 1};
    graph.operators.push_back(std::move(op));
  }
  graph.units.emplace_back();
  const OperatorProgram program(graph, 0, kOperators, {kOperators}, device);
  const at::Tensor value = at::ones({1}, at::TensorOptions().device(device)).requires_grad_(true);
  std::vector<double> samples;
  for (int i = 0; i < 9; ++i) {
    const auto start = Clock::now();
    program.run({value}, {});
    samples.push_back(seconds_since(start) / kOperators);  // the host's: a GPU is still at work
    Stopwatch(device).wait();
  }
  return robust_median(samples).median;
}

}  // namespace panpipe::exec
