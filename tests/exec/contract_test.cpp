// The contract's cases find what a transport does wrong: each of them is broken by a wrapper that does one thing wrong.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exec/engine/selftest/contract.hpp"
#include "tests/exec/transport_world.hpp"

namespace panpipe::exec {
namespace {

using namespace std::chrono_literals;

enum class Wrong { Values, LastValue, Order, Sums, Broadcasts, Gathers, Scatters, Exchanges, Bytes, Nothing };

// One value is another one: the last, or all.
void spoil(const at::Tensor& value, bool all) {
  if (value.numel() == 0) return;
  const at::Tensor flat = value.view({-1});
  const at::Tensor part = all ? flat : flat.slice(0, flat.size(0) - 1);
  if (value.scalar_type() == at::kBool)
    part.logical_not_();
  else
    part.add_(1);
}

// A message or a sum that is spoilt once it has arrived.
class Spoilt : public Pending {
 public:
  Spoilt(PendingPtr inner, at::Tensor target, bool all) : inner_(std::move(inner)), target_(std::move(target)), all_(all) {}
  bool done() override { return inner_->done(); }
  void wait(Clock::duration deadline, const std::string& what) override {
    inner_->wait(deadline, what);
    value = inner_->value;
    spoil(target_.defined() ? target_ : value, all_);
  }

 private:
  PendingPtr inner_;
  at::Tensor target_;
  bool all_;
};

class Faulty : public Transport {
 public:
  Faulty(Transport& inner, Wrong wrong) : inner_(inner), wrong_(inner.rank() == 1 ? wrong : Wrong::Nothing) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  const char* name() const override { return inner_.name(); }
  PendingPtr send(at::Tensor value, int to, std::uint32_t tag) override {
    // Messages 0 and 5 of the case on order, a float each, change places.
    if (wrong_ == Wrong::Order && (tag == 1000 || tag == 1005)) tag = 2005 - tag;
    return inner_.send(std::move(value), to, tag);
  }
  PendingPtr receive(const TensorSpec& expected, int from, std::uint32_t tag) override {
    PendingPtr pending = inner_.receive(expected, from, tag);
    if (wrong_ != Wrong::Values && wrong_ != Wrong::LastValue) return pending;
    return std::make_shared<Spoilt>(std::move(pending), at::Tensor(), wrong_ == Wrong::Values);
  }
  Group make_group(const std::vector<int>& ranks) override { return inner_.make_group(ranks); }
  PendingPtr all_reduce(at::Tensor value, const Group& group) override {
    PendingPtr pending = inner_.all_reduce(value, group);
    return wrong_ == Wrong::Sums ? std::make_shared<Spoilt>(std::move(pending), value.t(), true) : pending;
  }
  PendingPtr broadcast(at::Tensor value, int root, const Group& group) override {
    PendingPtr pending = inner_.broadcast(value, root, group);
    return wrong_ == Wrong::Broadcasts ? std::make_shared<Spoilt>(std::move(pending), value, true) : pending;
  }
  PendingPtr all_gather(at::Tensor whole, const Group& group) override {
    PendingPtr pending = inner_.all_gather(whole, group);
    return wrong_ == Wrong::Gathers ? std::make_shared<Spoilt>(std::move(pending), whole, true) : pending;
  }
  PendingPtr reduce_scatter(at::Tensor whole, const Group& group) override {
    PendingPtr pending = inner_.reduce_scatter(whole, group);
    return wrong_ == Wrong::Scatters ? std::make_shared<Spoilt>(std::move(pending), whole, true) : pending;
  }
  PendingPtr all_to_all(at::Tensor rows, const std::vector<std::int64_t>& sent, const std::vector<std::int64_t>& received,
                        const Group& group) override {
    PendingPtr pending = inner_.all_to_all(std::move(rows), sent, received, group);
    return wrong_ == Wrong::Exchanges ? std::make_shared<Spoilt>(std::move(pending), at::Tensor(), false) : pending;
  }
  void barrier(Clock::duration deadline, const std::string& what) override { inner_.barrier(deadline, what); }
  std::vector<std::string> all_gather(const std::string& bytes, Clock::duration deadline, const std::string& what) override {
    auto all = inner_.all_gather(bytes, deadline, what);
    if (wrong_ == Wrong::Bytes) std::swap(all.front(), all.back());
    return all;
  }
  void settle(at::Device device, Clock::duration deadline, const std::string& what) override {
    inner_.settle(device, deadline, what);
  }
  void set_action(const std::string& action) override { inner_.set_action(action); }
  void abort(const std::string& reason) noexcept override { inner_.abort(reason); }
  void refuse(const InputError& error) noexcept override { inner_.refuse(error); }
  void leave(Clock::duration deadline, const std::string& what) override { inner_.leave(deadline, what); }

 private:
  Transport& inner_;
  Wrong wrong_;
};

// The cases that find the fault on rank 1 of three.
std::set<std::string> broken_by(Wrong wrong) {
  std::set<std::string> broken;
  std::mutex lock;
  for (const ContractCase& each : contract_cases()) {
    run_world("local", 3, 20s, [&](Transport& inner) {
      Faulty transport(inner, wrong);
      try {
        each.run(transport, at::kCPU);
      } catch (const ContractBroken&) {
        const std::lock_guard hold(lock);
        broken.insert(each.name);
        inner.abort("the rule is broken");
      } catch (const PeerLost&) {  // by that abort
      }
    });
  }
  return broken;
}

const std::set<std::string> kMessages = {"EveryRankReachesEveryOther", "MessagesMatchByTagInWhateverOrderTheyAreAwaited",
                                         "SizesFromNothingToManyPieces", "EveryTypeArrivesAsItWasSent"};

TEST(ContractCases, KeptByWhatDoesNothingWrong) { EXPECT_EQ(broken_by(Wrong::Nothing), std::set<std::string>{}); }

TEST(ContractCases, FindMessagesThatArriveWithOtherValues) {
  EXPECT_EQ(broken_by(Wrong::Values), kMessages);
  EXPECT_EQ(broken_by(Wrong::LastValue), kMessages);
}

TEST(ContractCases, FindMessagesThatAreTakenForEachOther) {
  EXPECT_EQ(broken_by(Wrong::Order), std::set<std::string>{"MessagesMatchByTagInWhateverOrderTheyAreAwaited"});
}

TEST(ContractCases, FindWrongSumsBroadcastsExchangesAndBytes) {
  EXPECT_EQ(broken_by(Wrong::Sums), (std::set<std::string>{"GroupsSumAndSpreadOnTheirOwn", "SumsOfEveryTypeThatGradientsHave"}));
  EXPECT_EQ(broken_by(Wrong::Broadcasts), std::set<std::string>{"GroupsSumAndSpreadOnTheirOwn"});
  EXPECT_EQ(broken_by(Wrong::Gathers), std::set<std::string>{"PartsAreGatheredAndSummed"});
  EXPECT_EQ(broken_by(Wrong::Scatters), std::set<std::string>{"PartsAreGatheredAndSummed"});
  EXPECT_EQ(broken_by(Wrong::Exchanges), std::set<std::string>{"GroupsExchangeAsManyRowsAsEachHasForTheOther"});
  EXPECT_EQ(broken_by(Wrong::Bytes), std::set<std::string>{"EverybodysBytesAreGatheredInRankOrder"});
}

}  // namespace
}  // namespace panpipe::exec
