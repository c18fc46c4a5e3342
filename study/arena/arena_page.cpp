// The arena as a page: the schedules that were named, then for each ratio of costs bubble against memory, who wins within which
// memory, and every schedule.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "present/page/page.hpp"
#include "present/picture/schedule_picture.hpp"
#include "study/arena/arena_tables.hpp"
#include "study/arena/units.hpp"

namespace panpipe::study {
namespace {

// Orders of files and of programs: what a reader came for.
bool is_new(const Entrant& entrant) { return entrant.family.empty(); }

// Schedules at the same place are one mark.
present::Scatter front_plot(const Arena& arena, const Round& round) {
  present::Scatter plot;
  plot.title = "Bubble against memory: lower left is better";
  plot.x = {"microbatches that the fullest rank holds", present::AxisKind::Linear};
  plot.y = {"bubble, %", present::AxisKind::FromZero};
  plot.series = {"families", "orders that were given"};
  plot.front = true;
  std::map<std::pair<double, double>, std::size_t> places;  // in millionths, to the index of the point
  for (const std::size_t i : ranking(arena, round)) {
    const Judged& judged = round.judged[i];
    if (!judged.legal()) continue;
    const Entrant& entrant = arena.request.entrants[i];
    const std::pair<double, double> place = {std::round(1e6 * judged.held), std::round(1e6 * judged.bubble)};
    const auto [at, first] = places.emplace(place, plot.points.size());
    if (first)
      plot.points.push_back({judged.held, 100 * judged.bubble, 0,
                             fmt::format("bubble {:.2f} %, holds {:.4g}", 100 * judged.bubble, judged.held), false, ""});
    present::Point& point = plot.points[at->second];
    point.hint += "\n" + entrant.name;
    if (is_new(entrant)) point.series = 1;
    if (point.label.empty() && (on_front(round, judged) || is_new(entrant))) point.label = entrant.name;
  }
  return plot;
}

present::Table winners_table(const Arena& arena, const Round& round) {
  present::Table table;
  table.caption = "The fastest within a memory";
  table.sortable = false;
  table.columns = {{"fastest within", "microbatches", true, ""}, {"on idle, free links", "step in forwards", false, ""}};
  for (const std::string& cluster : arena.request.clusters) table.columns.push_back({cluster, "simulated", false, ""});
  for (const double limit : memory_limits(arena.request.ranks)) {
    std::vector<present::TableCell> row = {present::words(fmt::format("{:g}", limit))};
    for (int cluster = -1; cluster < static_cast<int>(arena.request.clusters.size()); ++cluster) {
      const int best = fastest_within(arena, round, limit, cluster);
      if (best < 0) {
        row.push_back(present::words("none", present::Tone::Muted));
        continue;
      }
      const Judged& judged = round.judged[best];
      const std::string time = cluster < 0 ? fmt::format("{:.5g}", judged.makespan) : time_text(judged.on[cluster]);
      const Entrant& entrant = arena.request.entrants[judged.entrant];
      row.push_back(present::words(fmt::format("{}: {}", entrant.name, time),
                                   is_new(entrant) ? present::Tone::Good : present::Tone::Plain));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string deadlocks_of(const Judged& judged) {
  std::string text;
  for (const Transfers& transfers : judged.transfers)
    if (!transfers.deadlock.empty()) text += fmt::format("receives {}, {}\n", transfers.receives, transfers.deadlock);
  return text;
}

present::TableCell time_cell(const ClusterTime& time, double least) {
  present::TableCell cell = present::words(time_text(time), time.refused.empty() ? present::Tone::Plain : present::Tone::Muted);
  cell.hint = time.refused;
  if (!time.refused.empty()) return cell;
  cell.value = time.simulated_s;
  if (time.simulated_s <= least * (1 + 1e-9)) cell.tone = present::Tone::Good;
  return cell;
}

present::Table table_of_all(const Arena& arena, const Round& round) {
  present::Table table;
  table.caption = "Every schedule, the shortest step first; a click on a head sorts by that column";
  table.columns = {
      {"schedule", "", false, ""},
      {"front", "", false, "★: no other schedule is as short and holds no more"},
      {"stages", "", true, "of a rank"},
      {"held", "", true, "microbatches whose activations the fullest rank holds"},
      {"step", "", true, "in forwards of a rank's share"},
      {"bubble", "%", true, ""},
      {"over bound", "%", true, "~: a weaker bound, of orders that hold any number of microbatches"},
      {"transfers", "", false, "early/late receives: a asynchronous, u buffered, B blocking, g batched, - deadlocks"}};
  std::vector<double> least(arena.request.clusters.size(), std::numeric_limits<double>::infinity());
  for (const Judged& judged : round.judged)
    for (std::size_t c = 0; c < judged.on.size(); ++c)
      if (judged.on[c].refused.empty()) least[c] = std::min(least[c], judged.on[c].simulated_s);
  for (const std::string& cluster : arena.request.clusters) table.columns.push_back({cluster, "", true, "simulated step"});
  for (const std::size_t i : ranking(arena, round)) {
    const Judged& judged = round.judged[i];
    if (!judged.legal()) continue;
    const bool front = on_front(round, judged);
    const std::string remark = remark_on(judged);
    const present::Tone tone = front ? present::Tone::Good : present::Tone::Plain;
    present::TableCell over = present::number(100 * judged.over_bound(), 2);
    if (!judged.bound_in_memory) over.text += "~";
    std::vector<present::TableCell> row = {
        present::words(arena.request.entrants[i].name + (remark.empty() ? "" : " (" + remark + ")"), tone),
        present::words(front ? "★" : "", tone),
        present::number(judged.stages_per_rank, 0),
        present::number(judged.held, 2),
        present::number(judged.makespan, 3),
        present::number(100 * judged.bubble, 2),
        std::move(over),
        present::words(semantics_text(judged))};
    row.back().hint = deadlocks_of(judged);
    for (std::size_t c = 0; c < judged.on.size(); ++c) row.push_back(time_cell(judged.on[c], least[c]));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::vector<std::string> left_out(const Arena& arena, const Round& round) {
  std::vector<std::string> items;
  for (const Judged& judged : round.judged)
    if (!judged.legal())
      items.push_back(fmt::format("{}: {}", arena.request.entrants[judged.entrant].name,
                                  judged.refused.empty() ? fmt::format("{}", fmt::join(judged.faults, "; ")) : judged.refused));
  return items;
}

// "3. of 32", by the step under plain costs.
std::string place_of(const Arena& arena, const Round& round, std::size_t entrant) {
  const std::vector<std::size_t> order = ranking(arena, round);
  const auto legal = std::count_if(order.begin(), order.end(), [&](std::size_t i) { return round.judged[i].legal(); });
  return fmt::format("{} of {}", std::find(order.begin(), order.end(), entrant) - order.begin() + 1, legal);
}

present::Table table_of_new(const Arena& arena, std::size_t entrant) {
  present::Table table;
  table.sortable = false;
  table.columns = {{"costs", "", false, ""},  {"place", "", true, ""}, {"step", "forwards", true, ""},
                   {"bubble", "%", true, ""}, {"held", "", true, ""},  {"over bound", "%", true, ""},
                   {"front", "", false, ""}};
  for (const Round& round : arena.rounds) {
    const Judged& judged = round.judged[entrant];
    const bool front = on_front(round, judged);
    const present::Tone tone = front ? present::Tone::Good : present::Tone::Plain;
    table.rows.push_back({present::words(fmt::format("{}: {}", round.ratio.name, costs_text(round.ratio))),
                          present::words(place_of(arena, round, entrant), tone), present::number(judged.makespan, 3),
                          present::number(100 * judged.bubble, 2), present::number(judged.held, 2),
                          present::number(100 * judged.over_bound(), 2),
                          present::words(front ? "★ none is as short and holds no more" : "", tone)});
  }
  return table;
}

constexpr std::size_t kMostDrawn = 20000;  // passes; a picture of some megabytes

// The drawing under the first ratio of costs, place and figures under all of them, and where it deadlocks.
void add_new(present::Page& page, const Arena& arena, std::size_t entrant) {
  const Judged& judged = arena.rounds.front().judged[entrant];
  const std::string& name = arena.request.entrants[entrant].name;
  if (!judged.legal()) {
    page.subheading(name + ": not legal").list(judged.refused.empty() ? judged.faults : std::vector{judged.refused});
    return;
  }
  page.subheading(name).add(table_of_new(arena, entrant));
  const CostRatio& ratio = arena.rounds.front().ratio;
  const Schedule order = order_of(arena.request, arena.request.entrants[entrant], ratio);
  std::size_t passes = 0;
  for (const auto& row : order.order) passes += row.size();
  const Played played = play(order, ratio);
  if (passes <= kMostDrawn && played.steps == 1)
    page.picture(fmt::format("{} under {}", name, ratio.name), present::to_svg(present::picture_of(order, played.evaluation)));
  if (const std::string deadlocks = deadlocks_of(judged); !deadlocks.empty())
    page.preformatted(deadlocks, "Where it deadlocks, and who waits for whom");
}

void add_key(present::Page& page) {
  page.preformatted(
      "step        from the first pass to the last, in forwards of a rank's share of a microbatch, links take no time\n"
      "bubble      share of the step in which ranks are idle\n"
      "held        microbatches whose activations the fullest rank holds at once; weights come on top, twice where two chains\n"
      "            of stages go in opposite directions\n"
      "over bound  the step over a proved bound: no order of the same placement that holds no more is shorter than the bound.\n"
      "            ~: the bound is a weaker one, of orders that hold any number\n"
      "★, green    no other schedule is as short and holds no more; green times: the shortest on that cluster\n"
      "transfers   the kinds of transfers with which the order finishes, receives posted early / late:\n"
      "            a asynchronous, u buffered, B blocking, g batched, - it deadlocks (the cycle is shown under the mouse)\n"
      "clusters    the step there, simulated with shared links",
      "What the columns and signs mean");
}

}  // namespace

std::string to_page(const Arena& arena) {
  const ArenaRequest& request = arena.request;
  present::Page page("Arena of schedules", fmt::format("{} schedules beside each other: {} ranks, {} microbatches",
                                                       request.entrants.size(), request.ranks, request.microbatches));
  add_key(page);
  if (std::any_of(request.entrants.begin(), request.entrants.end(), is_new)) page.heading("The orders that were given");
  for (std::size_t i = 0; i < request.entrants.size(); ++i)
    if (is_new(request.entrants[i])) add_new(page, arena, i);
  for (const Round& round : arena.rounds) {
    page.heading(fmt::format("Costs {}: {}", round.ratio.name, costs_text(round.ratio)));
    page.note(round.ratio.origin);
    const auto legal = [](const Judged& judged) { return judged.legal(); };
    if (std::any_of(round.judged.begin(), round.judged.end(), legal))
      page.add(front_plot(arena, round)).add(winners_table(arena, round)).add(table_of_all(arena, round));
    if (const std::vector<std::string> items = left_out(arena, round); !items.empty()) page.note("Left out:").list(items);
  }
  return page.to_html();
}

}  // namespace panpipe::study
