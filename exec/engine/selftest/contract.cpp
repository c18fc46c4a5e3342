#include "exec/engine/selftest/contract.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.hpp"

namespace panpipe::exec {
namespace {

constexpr Clock::duration kCaseTimeout = std::chrono::seconds(20);  // no wait of a case comes near it

void demand(bool kept, const std::string& what) {
  if (!kept) throw ContractBroken(what);
}

// Every case has its own tags, so that leftover messages of a broken case are not taken for the next one's.
enum FirstTag : std::uint32_t { kReach = 0, kOrder = 1000, kSizes = 2000, kTypes = 3000, kErrors = 4000 };

// Ranks in a ring: each sends to the next one and receives from the one before. With two ranks both are the same one.
int next(const Transport& transport) { return (transport.rank() + 1) % transport.size(); }
int before(const Transport& transport) { return (transport.rank() + transport.size() - 1) % transport.size(); }

bool contains(const std::vector<int>& ranks, int rank) { return std::find(ranks.begin(), ranks.end(), rank) != ranks.end(); }

std::string extents(at::IntArrayRef shape) {
  std::string text;
  for (const std::int64_t extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + text + "]";
}

void reaches_every_other(Transport& transport, c10::Device device) {
  const int me = transport.rank(), size = transport.size();
  std::vector<PendingPtr> arriving(size), sent;
  for (int other = 0; other < size; ++other)
    if (other != me) arriving[other] = transport.receive({{2, 3}, at::kFloat, device}, other, kReach);
  for (int other = 0; other < size; ++other)
    if (other != me)
      sent.push_back(transport.send(at::full({2, 3}, 100.0 * me + other, at::TensorOptions(device)), other, kReach));
  for (int other = 0; other < size; ++other) {
    if (other == me) continue;
    Pending& pending = *arriving[other];
    pending.wait(kCaseTimeout, "a message of the contract");
    demand(pending.done(), fmt::format("the message of rank {} to rank {} was awaited and is not done", other, me));
    demand(at::equal(pending.value.cpu(), at::full({2, 3}, 100.0 * other + me)),
           fmt::format("rank {} got other values than rank {} sent", me, other));
  }
  for (const PendingPtr& send : sent) send->wait(kCaseTimeout, "a message of the contract");
}

void messages_match_by_tag(Transport& transport, c10::Device device) {
  constexpr int kCount = 300;
  std::vector<PendingPtr> arriving, sent;
  const auto tag_of = [](int number) { return kOrder + static_cast<std::uint32_t>(number); };
  for (int i = 0; i < kCount; ++i)
    arriving.push_back(transport.receive({{i % 5 + 1}, at::kFloat, device}, before(transport), tag_of(i)));
  for (int i = kCount - 1; i >= 0; --i)
    sent.push_back(transport.send(at::full({i % 5 + 1}, i + 1000.0 * transport.rank(), at::TensorOptions(device)),
                                  next(transport), tag_of(i)));
  for (int i = 0; i < kCount; ++i) {
    const int number = i * 7 % kCount;  // 7 and 300 share no factor: each message once
    Pending& pending = *arriving[number];
    pending.wait(kCaseTimeout, "a message of the contract");
    demand(pending.value.sum().item<double>() == (number + 1000.0 * before(transport)) * (number % 5 + 1),
           fmt::format("rank {} got other values than rank {} sent as message {}", transport.rank(), before(transport), number));
  }
  for (const PendingPtr& send : sent) send->wait(kCaseTimeout, "a message of the contract");
}

// Sends a value around the ring that the receiver can predict.
void around_the_ring(Transport& transport, c10::Device device, std::uint32_t tag, const at::Tensor& mine,
                     const at::Tensor& expected) {
  const PendingPtr send = transport.send(mine.to(device), next(transport), tag);
  const PendingPtr arriving = transport.receive({expected.sizes().vec(), expected.scalar_type(), device}, before(transport), tag);
  arriving->wait(kCaseTimeout, "a message of the contract");
  const auto where = [&](const char* what) {
    return fmt::format("{} {} from rank {} to rank {}: {}", c10::toString(expected.scalar_type()), extents(expected.sizes()),
                       before(transport), transport.rank(), what);
  };
  demand(arriving->value.scalar_type() == expected.scalar_type(), where("it arrived as another type"));
  demand(at::equal(arriving->value.cpu(), expected), where("other values arrived than were sent"));
  send->wait(kCaseTimeout, "a message of the contract");
}

void sizes_from_nothing(Transport& transport, c10::Device device) {
  // Around 64 KiB messages stop travelling with their header; above 16 MiB they travel in pieces.
  const std::vector<std::vector<std::int64_t>> shapes = {{0},     {3, 0, 2}, {},        {1},         {16383},
                                                         {16384}, {16385},   {1 << 20}, {9, 1 << 20}};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const auto values = [&](int rank) {
      std::int64_t count = 1;
      for (const std::int64_t extent : shapes[i]) count *= extent;
      return (at::arange(count, at::kFloat) + rank).reshape(shapes[i]);
    };
    around_the_ring(transport, device, kSizes + static_cast<std::uint32_t>(i), values(transport.rank()),
                    values(before(transport)));
  }
}

void every_type_arrives(Transport& transport, c10::Device device) {
  const std::vector<at::ScalarType> types = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong,
                                             at::kInt,   at::kShort,  at::kChar, at::kByte,     at::kBool};
  for (std::size_t i = 0; i < types.size(); ++i) {
    const at::Tensor value = at::arange(10, at::kLong).remainder(2).to(types[i]);
    around_the_ring(transport, device, kTypes + static_cast<std::uint32_t>(i), value, value);
  }
}

void another_size_is_an_error(Transport& transport, c10::Device device) {
  const auto send = [&](const at::Tensor& value, std::uint32_t tag) {
    transport.send(value, 1, kErrors + tag)->wait(kCaseTimeout, "a message of the contract");
  };
  const auto expect = [&](std::vector<std::int64_t> shape, std::uint32_t tag, const std::string& message) {
    std::string found = "no error";
    try {
      transport.receive({std::move(shape), at::kFloat, device}, 0, kErrors + tag)->wait(kCaseTimeout, "1F2");
    } catch (const InternalError& error) {
      found = error.what();
    }
    demand(found == message, fmt::format("'{}' in place of '{}'", found, message));
  };
  const at::TensorOptions options(device);
  if (transport.rank() == 0) {
    send(at::zeros({2, 3}, options), 1);
    send(at::zeros({70000}, options), 2);
    send(at::zeros({4}, at::kInt).to(device), 3);
  } else if (transport.rank() == 1) {
    expect({3, 2}, 1, "1F2: rank 0 sent Float[2, 3], expected Float[3, 2]");
    expect({7}, 2, "1F2: rank 0 sent Float[70000], expected Float[7]");
    expect({4}, 3, "1F2: rank 0 sent Int[4], expected Float[4]");
  }
  transport.barrier(kCaseTimeout, "the end of a case");  // the transport works on
}

// All ranks; the even and the odd ones; neighbours: as far as these are two or more.
std::vector<std::vector<int>> groups_of(int size) {
  std::vector<std::vector<int>> all(3);
  for (int rank = 0; rank < size; ++rank) {
    all[0].push_back(rank);
    all[1 + rank % 2].push_back(rank);
    if (rank % 2 == 1) all.push_back({rank - 1, rank});
  }
  std::vector<std::vector<int>> groups;
  for (std::vector<int>& ranks : all)
    if (ranks.size() > 1) groups.push_back(std::move(ranks));
  return groups;
}

void groups_sum_and_spread(Transport& transport, c10::Device device) {
  const int me = transport.rank();
  std::vector<Group> groups;
  for (const std::vector<int>& ranks : groups_of(transport.size())) groups.push_back(transport.make_group(ranks));
  demand(transport.make_group(groups.front().ranks).id == groups.front().id, "the same ranks make another group the second time");
  std::vector<std::pair<PendingPtr, at::Tensor>> sums;
  for (const Group& group : groups) {
    if (!contains(group.ranks, me)) continue;
    const at::Tensor value = at::full({1000}, static_cast<double>(1 << me), at::TensorOptions(device));
    sums.emplace_back(transport.all_reduce(value, group), value);
  }
  std::size_t at = 0;
  for (const Group& group : groups) {
    if (!contains(group.ranks, me)) continue;
    double expected = 0;  // powers of two: it shows who is missing
    for (const int member : group.ranks) expected += 1 << member;
    sums[at].first->wait(kCaseTimeout, "a sum of the contract");
    demand(at::equal(sums[at].second.cpu(), at::full({1000}, expected)),
           fmt::format("rank {} of a group of {} got another sum than {}", me, group.ranks.size(), expected));
    ++at;
    for (const int root : group.ranks) {
      const at::Tensor value = at::full({5}, 100.0 + me, at::TensorOptions(device));
      transport.broadcast(value, root, group)->wait(kCaseTimeout, "a broadcast of the contract");
      demand(at::equal(value.cpu(), at::full({5}, 100.0 + root)),
             fmt::format("rank {} got other values than rank {} broadcast", me, root));
    }
  }
  transport.barrier(kCaseTimeout, "the end of a case");
}

void sums_of_every_type(Transport& transport, c10::Device device) {
  const int size = transport.size();
  const Group group = transport.make_group(groups_of(size).front());
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt, at::kLong}) {
    for (const std::int64_t count : {0, 1, 100000}) {
      const at::Tensor value = at::full({count}, transport.rank() + 1, at::TensorOptions(type).device(device));
      transport.all_reduce(value, group)->wait(kCaseTimeout, "a sum of the contract");
      demand(at::equal(value.cpu(), at::full({count}, size * (size + 1) / 2, type)),  // 1 + 2 + ... + size
             fmt::format("a sum of {} {} over {} ranks is wrong", count, c10::toString(type), size));
    }
  }
  const at::Tensor strided = at::zeros({4, 6}, at::TensorOptions(device)).t();  // sums are in place for any strides
  strided.fill_(transport.rank());
  transport.all_reduce(strided, group)->wait(kCaseTimeout, "a sum of the contract");
  demand(at::equal(strided.cpu(), at::full({6, 4}, size * (size - 1) / 2.0)), "a sum of a transposed tensor is wrong");
}

void parts_are_gathered_and_summed(Transport& transport, c10::Device device) {
  const int me = transport.rank();
  for (const std::vector<int>& ranks : groups_of(transport.size())) {
    const Group group = transport.make_group(ranks);
    if (!contains(ranks, me)) continue;
    const std::size_t members = ranks.size(), own = member_of(group, me);
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt, at::kLong}) {
      for (const std::int64_t length : {0, 1, 40000}) {
        const auto where = [&](const char* what) {
          return fmt::format("{} of {} {} each over {} ranks", what, length, c10::toString(type), members);
        };
        const at::TensorOptions options = at::TensorOptions(type).device(device);
        const at::Tensor whole = at::full({length * static_cast<std::int64_t>(members)}, -1, options);
        part_of(whole, own, members).fill_(me);
        transport.all_gather(whole, group)->wait(kCaseTimeout, "a gathering of the contract");
        for (std::size_t k = 0; k < members; ++k)
          demand(at::equal(part_of(whole, k, members).cpu(), at::full({length}, ranks[k], type)), where("a gathering of parts"));
        // Rank r gives (r + 1)(k + 1) to the k-th: it keeps the sum over all r.
        int givers = 0;
        for (const int rank : ranks) givers += rank + 1;
        for (std::size_t k = 0; k < members; ++k) part_of(whole, k, members).fill_((me + 1) * (static_cast<int>(k) + 1));
        transport.reduce_scatter(whole, group)->wait(kCaseTimeout, "a sum of the contract");
        demand(at::equal(part_of(whole, own, members).cpu(), at::full({length}, givers * (static_cast<int>(own) + 1), type)),
               where("a sum of parts"));
      }
    }
  }
  transport.barrier(kCaseTimeout, "the end of a case");
}

// Rows from one rank to another in the exchange: none, one and several, also from a rank to itself.
std::int64_t rows_between(int from, int to) { return (3 * from + to) % 4; }

// The rows that rank `from` sends to rank `to`: three features a row, which encode sender, receiver and row.
at::Tensor rows_from(int from, int to, at::ScalarType type) {
  const at::Tensor numbers = at::arange(rows_between(from, to), at::kLong).unsqueeze(1).expand({-1, 3}) + 4 * from + 20 * to;
  return numbers.to(type);
}

void groups_exchange_rows(Transport& transport, c10::Device device) {
  const int me = transport.rank();
  std::vector<Group> groups;
  for (const std::vector<int>& ranks : groups_of(transport.size())) groups.push_back(transport.make_group(ranks));
  // Two of each group under way at a time, and awaited from the last to the first.
  std::vector<std::pair<PendingPtr, at::Tensor>> exchanges;
  for (const at::ScalarType type : {at::kFloat, at::kLong, at::kBFloat16, at::kBool})
    for (const Group& group : groups) {
      if (!contains(group.ranks, me)) continue;
      std::vector<at::Tensor> given, expected;
      std::vector<std::int64_t> sent, received;
      for (const int member : group.ranks) {
        given.push_back(rows_from(me, member, type));
        sent.push_back(rows_between(me, member));
        expected.push_back(rows_from(member, me, type));
        received.push_back(rows_between(member, me));
      }
      exchanges.emplace_back(transport.all_to_all(at::cat(given).to(device), sent, received, group), at::cat(expected));
    }
  for (auto exchange = exchanges.rbegin(); exchange != exchanges.rend(); ++exchange) {
    Pending& pending = *exchange->first;
    pending.wait(kCaseTimeout, "an exchange of the contract");
    demand(pending.value.scalar_type() == exchange->second.scalar_type() && at::equal(pending.value.cpu(), exchange->second),
           fmt::format("rank {} got other rows than the others sent to it", me));
  }
  // Nobody has anything for anybody, and all have all for the first.
  const Group all = groups.front();
  const std::vector<std::int64_t> nothing(all.ranks.size(), 0);
  const PendingPtr empty = transport.all_to_all(at::zeros({0, 2}, at::TensorOptions(device)), nothing, nothing, all);
  empty->wait(kCaseTimeout, "an exchange of the contract");
  demand(empty->value.sizes() == at::IntArrayRef({0, 2}), "an exchange of no rows is not empty");
  std::vector<std::int64_t> sent = nothing, received = nothing;
  sent[0] = 2;
  if (me == all.ranks.front()) received.assign(all.ranks.size(), 2);
  const PendingPtr one_sided = transport.all_to_all(at::full({2, 2}, me, at::TensorOptions(device)), sent, received, all);
  one_sided->wait(kCaseTimeout, "an exchange of the contract");
  const at::Tensor expected = at::arange(static_cast<std::int64_t>(all.ranks.size()), at::kFloat).repeat_interleave(2);
  const at::Tensor wanted = me == all.ranks.front() ? expected.unsqueeze(1).expand({-1, 2}) : at::zeros({0, 2});
  demand(at::equal(one_sided->value.cpu(), wanted), "rows that all send to one rank did not arrive there");
  transport.barrier(kCaseTimeout, "the end of a case");
}

void bytes_are_gathered(Transport& transport, c10::Device) {
  const auto me = static_cast<std::size_t>(transport.rank());
  for (const std::size_t length : {0u, 5u, 200000u}) {
    std::string mine(length * me, static_cast<char>('a' + transport.rank()));
    if (!mine.empty()) mine[0] = '\0';
    const std::vector<std::string> all = transport.all_gather(mine, kCaseTimeout, "bytes of the contract");
    demand(all.size() == static_cast<std::size_t>(transport.size()), "not every rank's bytes were gathered");
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      demand(all[rank].size() == length * rank, fmt::format("rank {} gathered other bytes than rank {} gave", me, rank));
    demand(all[me] == mine, fmt::format("rank {} gathered other bytes than it gave", me));
  }
}

}  // namespace

const std::vector<ContractCase>& contract_cases() {
  static const std::vector<ContractCase> cases = {
      {"EveryRankReachesEveryOther", "every rank reaches every other", reaches_every_other},
      {"MessagesMatchByTagInWhateverOrderTheyAreAwaited", "messages of a pair match in whatever order they are sent and awaited",
       messages_match_by_tag},
      {"SizesFromNothingToManyPieces", "messages of 0 bytes to 36 MiB arrive", sizes_from_nothing},
      {"EveryTypeArrivesAsItWasSent", "every type arrives as it was sent", every_type_arrives},
      {"AMessageOfAnotherSizeOrTypeIsAnErrorThatNamesBoth", "a message of another size or type is an error",
       another_size_is_an_error},
      {"GroupsSumAndSpreadOnTheirOwn", "groups sum and broadcast on their own", groups_sum_and_spread},
      {"SumsOfEveryTypeThatGradientsHave", "sums of every type are exact", sums_of_every_type},
      {"PartsAreGatheredAndSummed", "parts are gathered, and summed to whom they belong", parts_are_gathered_and_summed},
      {"GroupsExchangeAsManyRowsAsEachHasForTheOther", "groups exchange rows, none and uneven numbers too", groups_exchange_rows},
      {"EverybodysBytesAreGatheredInRankOrder", "bytes are gathered in the order of ranks", bytes_are_gathered},
  };
  return cases;
}

const ContractCase& contract_case(const std::string& name) {
  const auto& all = contract_cases();
  const auto found = std::find_if(all.begin(), all.end(), [&](const ContractCase& each) { return each.name == name; });
  PANPIPE_CHECK(found != all.end(), "there is no case " + name + " of the contract");
  return *found;
}

}  // namespace panpipe::exec
