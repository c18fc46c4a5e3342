#include "tests/exec/two_hosts.hpp"

#include <unistd.h>

#include <cstdlib>

namespace panpipe::test {
namespace {

bool shell(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

}  // namespace

void TwoHosts::SetUp() {
  // Names of this process alone: tests may run side by side.
  const std::string own = std::to_string(getpid()), a = "va" + own, b = "vb" + own;
  first_ = "pp-a-" + own;
  second_ = "pp-b-" + own;
  const bool made = shell("ip netns add " + first_) && shell("ip netns add " + second_) &&
                    shell("ip link add " + a + " netns " + first_ + " type veth peer name " + b + " netns " + second_) &&
                    shell("ip -n " + first_ + " addr add 10.77.0.1/24 dev " + a) &&
                    shell("ip -n " + second_ + " addr add 10.77.0.2/24 dev " + b) &&
                    shell("ip -n " + first_ + " link set lo up") && shell("ip -n " + second_ + " link set lo up") &&
                    shell("ip -n " + first_ + " link set " + a + " up") && shell("ip -n " + second_ + " link set " + b + " up") &&
                    shell("ip netns exec " + first_ + " true");
  if (!made) GTEST_SKIP() << "network namespaces cannot be made here (root and iproute2 are needed)";
  cable_ = a;
}

void TwoHosts::TearDown() {
  shell("ip netns del " + first_);
  shell("ip netns del " + second_);
}

void TwoHosts::cut() { ASSERT_TRUE(shell("ip -n " + first_ + " link set " + cable_ + " down")); }

Started TwoHosts::start(int host, const std::vector<std::string>& command, std::map<std::string, std::string> environment,
                        const std::string& master) {
  const std::string& name = host == 0 ? first_ : second_;
  // A name of its own, to distinguish the hosts.
  std::vector<std::string> words{
      "ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c", "echo \"$0\" >/proc/sys/kernel/hostname && exec \"$@\"", name};
  words.insert(words.end(), command.begin(), command.end());
  environment.insert({{"MASTER_ADDR", master}, {"MASTER_PORT", "29611"}});
  return Started(words, environment, "");
}

}  // namespace panpipe::test
