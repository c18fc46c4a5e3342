#include "costmodel/scenario/price_list.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/input/run_scalars.hpp"
#include "base/text/run_quantity_text.hpp"
#include "costmodel/cluster/value_or_file.hpp"

namespace panpipe {
namespace {

const ReferenceKind kPriceList{"prices", "prices"};

// "2026-05-18". Calendars are not checked beyond 12 months of 31 days.
bool is_date(const std::string& text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return false;
  for (const std::size_t i : {0, 1, 2, 3, 5, 6, 8, 9})
    if (text[i] < '0' || text[i] > '9') return false;
  const std::string month = text.substr(5, 2), day = text.substr(8, 2);
  return month >= "01" && month <= "12" && day >= "01" && day <= "31";
}

std::optional<PriceList::Entry> read_entry(const Node& node, ReadLog& log) {
  MapReader reader(node, log);
  PriceList::Entry entry;
  const Node *device = reader.require("device"), *price = reader.require("price"), *date = reader.require("date"),
             *source = reader.require("source");
  reader.finish();
  if (device == nullptr || price == nullptr || date == nullptr || source == nullptr) return std::nullopt;
  ReadLog quiet;  // other entries of the list are not reported with the scenario
  entry.device = read_string(*device, quiet).value_or("");
  entry.date = read_string(*date, quiet).value_or("");
  entry.source = read_string(*source, quiet).value_or("");
  const std::optional<Money> amount = read_money(*price, quiet);
  if (amount && !is_date(entry.date))
    quiet.error(*date, fmt::format("'{}' is not a date", date->text),
                "prices age: write the day of the price, as in '2026-05-18'");
  return read_or_log(log, [&]() -> std::optional<PriceList::Entry> {
    quiet.throw_if_errors();
    entry.price = *amount;
    return entry;
  });
}

}  // namespace

std::string display_name(const DeviceType& type) { return type.kind == "given" ? "a device written in place" : type.name; }

std::optional<PriceList> read_price_list(const Node& reference, ReadLog& log) {
  const std::optional<std::string> name = read_string(reference, log);
  if (!name) return std::nullopt;
  return read_or_log(log, [&]() -> std::optional<PriceList> {
    PriceList list;
    list.name = *name;
    const NodePtr tree = expand_reference(reference, kPriceList);
    ReadLog own;
    MapReader reader(*tree, own);
    read_heading(reader, kPriceList.kind, Heading::Optional);
    const Node* prices = reader.require("prices");
    if (prices != nullptr && (prices->kind != NodeKind::Sequence || prices->items.empty()))
      own.error(*prices, "prices are a list of maps",
                "as in '- {device: H100-SXM, price: 2.95 USD, date: 2026-05-18, source: URL}'");
    else if (prices != nullptr)
      for (const NodePtr& item : prices->items)
        if (auto entry = read_entry(*item, own)) list.entries.push_back(std::move(*entry));
    reader.finish();
    own.throw_if_errors();
    return list;
  });
}

void price_devices(const PriceList& list, const Node& reference, const Cluster& cluster, ReadLog& log, RunRequest& run) {
  std::vector<double> prices;
  for (const DeviceType& type : cluster.types) {
    const auto entry = std::find_if(list.entries.begin(), list.entries.end(),
                                    [&](const PriceList::Entry& candidate) { return candidate.device == type.name; });
    if (entry == list.entries.end()) {
      std::vector<std::string> names;
      for (const PriceList::Entry& known : list.entries) names.push_back(known.device);
      log.error(reference, fmt::format("the price list '{}' has no price for {}", list.name, display_name(type)),
                fmt::format("it has prices for {}; state one, as in 'price: 2.5 USD'", list_of(names)));
      return;
    }
    if (!run.currency.empty() && run.currency != entry->price.currency) {
      log.error(reference,
                fmt::format("the prices of this cluster's devices are in {} and {}", run.currency, entry->price.currency),
                "amounts of two currencies do not add: write a list in one of them");
      return;
    }
    run.currency = entry->price.currency;
    // A slow device is of a type of its own, with the name and the price of the others.
    const auto same = [&](const DeviceType& other) { return &other < &type && other.name == type.name; };
    if (std::none_of(cluster.types.begin(), cluster.types.end(), same)) {
      run.price_origin += fmt::format("{}{}", prices.empty() ? "" : " and ", money_text(entry->price.amount, run.currency));
      log.resolved(fmt::format("{}.{}", reference.path, type.name),
                   fmt::format("{} {}", entry->price.amount, entry->price.currency),
                   fmt::format("{}: {}", entry->date, entry->source));
    }
    prices.push_back(entry->price.amount);
    if (prices.size() == cluster.types.size()) run.price_origin += fmt::format(" ({}, {})", list.name, entry->date);
  }
  run.prices = std::move(prices);
}

}  // namespace panpipe
