#include "costmodel/cluster/cluster_keys.hpp"

#include <utility>

#include "base/input/declare.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/cluster/wiring_defaults.hpp"

namespace panpipe {

using namespace key_parts;

namespace {

namespace defaults = wiring_defaults;
using std::vector;

// The first keys of every file.
vector<Key> heading(const char* kind) {
  return {declare("panpipe", "the format's number, 1", form::whole(1), ActsOn::Nothing),
          declare("kind", "the kind of the file", Words{kind}, ActsOn::Nothing),
          declare("description", "a line for people", form::text(), ActsOn::Nothing),
          declare("source", "where the whole comes from", form::text(), ActsOn::Nothing)};
}

Key sources() { return declare("sources", "where each number comes from, by its key", kOpen, ActsOn::Nothing); }

Key latency(std::string fallback, const char* meaning) {
  return declare("latency", meaning, form::time(), Fallback{std::move(fallback)});
}

Key capacity(const char* name, const char* meaning, std::string_view otherwise = {}, std::string fallback = "") {
  return declare(name, meaning, form::bandwidth(), Fallback{std::move(fallback)}, Otherwise{otherwise});
}

Key list_of_devices(const char* name, const char* meaning) { return declare(name, meaning, items(items(form::whole(0)))); }

Key device() {
  vector<Key> keys = heading("device");
  const vector<Key> own = {
      declare("file", "the device's file, whose keys the others replace", form::shipped()),
      declare("name", "the device's name", form::text()),
      declare("processor", "what computes", Words{"gpu", "cpu"}, Fallback{"gpu"}),
      declare("memory", "of one device", form::size(Sign::Positive)),
      declare("usable", "share of the memory that programs get", form::share(), Fallback{"100 %"}),
      declare("memory_bandwidth", "of the device's own memory", form::bandwidth()),
      declare("peak", "dense compute rates by precision",
              Inside{declare("fp32", "dense rate in fp32", form::rate()), declare("tf32", "dense rate in tf32", form::rate()),
                     declare("bf16", "dense rate in bf16, accumulated in fp32", form::rate()),
                     declare("fp16", "dense rate in fp16, accumulated in fp32", form::rate()),
                     declare("fp8", "dense rate in fp8", form::rate()),
                     declare("mxfp8", "dense rate in fp8 with a scale per block", form::rate()),
                     declare("nvfp4", "dense rate in fp4 with a scale in fp8 per 16 elements", form::rate()),
                     declare("mxfp4", "dense rate in fp4 with a scale per 32 elements", form::rate())}),
      declare("multiprocessors", "number of multiprocessors, for the fill of small kernels", form::whole(1)),
      declare("tdp", "board power, for energy", form::text(), Page{"run-costs.md"}, Example{"400 W"}),
      declare("power_limit", "as nvidia-smi -pl sets it; compute rates follow", form::text(), Otherwise{"`tdp`"},
              Page{"models/topology.md#power-and-clock"}, Example{"300 W"}),
      declare("clock", "share of the clock at which the peaks hold; compute rates follow", form::share(), Fallback{"100 %"},
              Page{"models/topology.md#power-and-clock"}),
      declare("copy_bandwidth", "between device and host, one direction", form::bandwidth()),
      declare("peer_access", "devices reach one another over PCIe", form::truth(), Fallback{"true"}),
      declare("multicast", "the switch reduces (NVLink SHARP)", form::truth(), Fallback{"false"}),
      declare("nvlink", "its NVLink ports",
              Inside{declare("links", "links of a device", form::whole(1)), capacity("bandwidth", "of one link, one direction")}),
      declare("calibration",
              "physical numbers of this device from measured runs: a file, or the numbers where a device's file holds them",
              form::shipped(), kOpen, Otherwise{"a priori constants"}, Page{"models/calibration.md"}),
      declare("driver_name", "what the driver calls the device", form::text(), ActsOn::Nothing),
      declare("server", "the shipped cluster file of one server with it, for runs that name the device alone", form::text(),
              ActsOn::Nothing),
      declare("compute_capability",
              "generation of an NVIDIA device: whether products in 8 bits read copies by rows, how fast NVSwitch sums",
              form::number(Sign::Positive), Example{"9"}),
      declare("measured", "what `panpipe measure-device` measured: evidence, and for people", kOpen, Page{"measure-device.md"},
              ActsOn::Nothing),
      sources()};
  keys.insert(keys.end(), own.begin(), own.end());
  return declare("device", "the type of the devices: a file, or a map of its keys", form::shipped(), Inside{std::move(keys)},
                 Page{"models/topology.md#parameters"});
}

Key wiring() {
  const std::string nvlink = exact_text(defaults::kNvlinkLatency);
  return declare(
      "wiring", "the connections inside a node",
      Inside{declare("topology", "a file with what `nvidia-smi topo -m` prints", form::file()),
             declare("switch", "an NVSwitch that connects all devices",
                     Inside{capacity("bandwidth", "of a device's port, one direction"), latency(nvlink, "of a transfer")}),
             declare("bridges", "NVLink bridges between pairs",
                     Inside{list_of_devices("pairs", "the pairs of devices with a bridge"),
                            capacity("bandwidth", "of a bridge, one direction"), latency(nvlink, "of a transfer")}),
             declare("links", "links of single pairs",
                     items(Inside{declare("between", "the two devices", items(form::whole(0)), kRequired),
                                  declare("class", "the class of the path", Words{"bridge", "peer-pcie", "host", "host-sockets"}),
                                  capacity("bandwidth", "of one direction"), latency("", "of a transfer")})),
             declare("pcie", "PCIe slots",
                     Inside{capacity("bandwidth", "of a device's slot, one direction", "what `generation` and `lanes` carry"),
                            declare("generation", "of the slot: 3 to 6; a slot that carries less than the card narrows it",
                                    form::whole(3), Example{"4"}),
                            declare("lanes", "of the slot; without `generation` a share of `bandwidth`", form::whole(1),
                                    Fallback{"16"})}),
             declare("roots", "devices that share an uplink",
                     Inside{list_of_devices("groups", "the devices below each root"),
                            capacity("bandwidth", "of a root's uplink", "as `pcie`")}),
             declare("sockets", "the processors of the node",
                     Inside{list_of_devices("groups", "the devices of each socket"),
                            capacity("bandwidth", "of the link between sockets", {}, exact_text(defaults::kSocketLink)),
                            latency(exact_text(defaults::kSocketLatency), "of crossing it")}),
             declare("peer", "access between devices over PCIe",
                     Inside{latency(exact_text(defaults::kPeerLatency), "of a transfer")}),
             declare("host", "copies through the host",
                     Inside{capacity("copy", "of a copy through the host, one direction"),
                            capacity("both_ways", "of both directions of a device together", "no limit"),
                            capacity("memory", "of a socket's memory", "no limit"),
                            capacity("relay", "of all copies between devices through a socket's processor", "no limit"),
                            latency(exact_text(defaults::kHostLatency), "of a copy through the host")})},
      Page{"models/topology.md#parameters"});
}

Key network() {
  return declare("network", "the network between nodes",
                 Inside{declare("nics_per_node", "network cards of a node", form::whole(1)),
                        capacity("bandwidth", "of a card, one direction"),
                        latency(exact_text(defaults::kNetworkLatency), "of a transfer between nodes"),
                        declare("post", "host time of a message", form::time(), Fallback{exact_text(defaults::kNetworkPost)}),
                        declare("oversubscription", "what a node's cards can send over what its uplink carries; at least 1",
                                form::number(Sign::Positive), Fallback{"1"}),
                        declare("spine", "what all nodes together can exchange; with `rails`, over all rails", form::bandwidth(),
                                Otherwise{"no limit"}, Example{"1 GB/s"}),
                        declare("rails",
                                "cards of equal number have switches of their own; only what goes from one number to another "
                                "crosses the oversubscribed level and the spine",
                                form::truth(), Fallback{"false"}),
                        declare("sharp", "the switches sum all-reduces (SHARP)", form::truth(), Fallback{"false"},
                                Page{"models/collectives.md"})},
                 Page{"models/topology.md#parameters"});
}

vector<Key> group() {
  return {device(),
          declare("nodes", "number of nodes", form::whole(1), Fallback{"1"}),
          declare("devices_per_node", "devices of a node", form::whole(1)),
          declare("host_memory", "of a node's host: what `offload` puts there must fit", form::size(Sign::Positive),
                  Otherwise{"no limit"}, Example{"512 GiB"}),
          wiring(),
          network()};
}

Key link() {
  const Key table = declare("table", "pairs of size and time: linear between its points and beyond the last, shared by nothing",
                            items(items(form::size(), form::time())));
  return declare(
      "link", "of a cluster in place: the link of each ordered pair of devices",
      Inside{latency("", "of a transfer"), capacity("bandwidth", "of one direction, or `unlimited`"),
             declare("shared", "`false`: a delay, which simultaneous transfers do not share", form::truth(), Fallback{"true"}),
             table});
}

Key factor(const char* meaning) { return declare("factor", meaning, form::number(Sign::Positive), kRequired, Example{"0.9"}); }

vector<Key> impairments() {
  return {
      declare("slow", "single slow devices",
              items(Inside{declare("device", "its number", form::whole(0), kRequired),
                           factor("the share of its rate that is left; above 1: how many times as long its passes take")}),
              Page{"models/topology.md#slow-devices-and-degraded-links"}),
      declare("degraded", "single links with less bandwidth",
              items(Inside{declare("link", "as `panpipe check --links` names it, or two devices", form::text(),
                                   items(form::whole(0)), kRequired, Example{"node0.nic0"}),
                           factor("the share of its bandwidth that is left; above 1: how many times as long a transfer takes")}),
              Page{"models/topology.md#slow-devices-and-degraded-links"})};
}

}  // namespace

Key cluster_key() {
  const Keys nodes = group();
  vector<Key> keys = heading("cluster");
  const vector<Key> own = {
      declare("file", "the cluster's file, whose keys the others replace", form::shipped()),
      declare("name", "the cluster's name", form::text(), Otherwise{"the file's name"}),
      declare("devices", "of a cluster in place: number of devices", form::whole(1)),
      declare("memory", "of a cluster in place: memory of a device", form::size(Sign::Positive)),
      link(),
      declare("usable", "share of a device's memory that a plan may fill", form::share(), Otherwise{"each device's own"},
              Example{"90 %"}),
      declare("groups", "kinds of nodes: a list of maps with `device`, `nodes`, `devices_per_node`, `wiring`, `network`",
              items(Inside{nodes})),
      declare("collectives", "measured times of collectives, which come before formulas", form::shipped(),
              Page{"models/collectives.md"}),
      sources()};
  keys.insert(keys.end(), nodes.begin(), nodes.end());
  keys.insert(keys.end(), own.begin(), own.end());
  const Keys more = impairments();
  keys.insert(keys.end(), more.begin(), more.end());
  return declare("cluster", "the machine: a file, a file with keys that replace its own, or a description in place",
                 form::shipped(), Inside{std::move(keys)}, kRequired, Page{"models/topology.md"}, InExports::Stated);
}

}  // namespace panpipe
