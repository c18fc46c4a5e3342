// The arena as a page: for each ratio of costs bubble against memory, who wins within which memory, and every schedule.
#include <fmt/format.h>

#include "present/page/page.hpp"
#include "study/arena/arena_tables.hpp"

namespace panpipe::arena {
namespace {

page::Scatter front_plot(const Arena& arena, const Round& round) {
  page::Scatter plot;
  plot.title = "Bubble against memory";
  plot.x = {"microbatches that the fullest rank holds", page::AxisKind::Linear};
  plot.y = {"bubble, %", page::AxisKind::FromZero};
  plot.series = {"families", "orders of files"};
  plot.front = true;
  for (const Judged& judged : round.judged) {
    if (!judged.legal()) continue;
    const Entrant& entrant = arena.request.entrants[judged.entrant];
    plot.points.push_back({judged.held, 100 * judged.bubble, entrant.order ? 1 : 0,
                           fmt::format("{}: bubble {:.2f} %, holds {:.4g}", entrant.name, 100 * judged.bubble, judged.held)});
  }
  return plot;
}

page::Table winners_table(const Arena& arena, const Round& round) {
  page::Table table;
  table.caption = "Fastest within a memory";
  table.columns = {{"microbatches a rank", "", true, ""}, {"free links", "", false, "by the step under plain costs"}};
  for (const std::string& cluster : arena.request.clusters) table.columns.push_back({cluster, "", false, "simulated"});
  for (const double limit : memory_limits(arena.request.ranks)) {
    std::vector<page::TableCell> row = {page::number(limit, 1)};
    for (int cluster = -1; cluster < static_cast<int>(arena.request.clusters.size()); ++cluster) {
      const int best = fastest_within(arena, round, limit, cluster);
      row.push_back(best < 0 ? page::words("none", page::Tone::Muted)
                             : page::words(arena.request.entrants[static_cast<std::size_t>(best)].name));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

page::Table table_of_all(const Arena& arena, const Round& round) {
  page::Table table;
  table.caption = "Every schedule";
  table.columns = {
      {"schedule", "", false, ""},
      {"stages", "a rank", true, ""},
      {"held", "microbatches", true, ""},
      {"step", "forwards", true, ""},
      {"bubble", "%", true, ""},
      {"over bound", "%", true, ""},
      {"transfers", "", false, "early/late receives: a asynchronous, u buffered, B blocking, g batched, - deadlocks"}};
  for (const std::string& cluster : arena.request.clusters) table.columns.push_back({cluster, "ms", true, "simulated"});
  for (const std::size_t i : ranking(arena, round)) {
    const Judged& judged = round.judged[i];
    if (!judged.legal()) continue;
    const page::Tone tone = on_front(round, judged) ? page::Tone::Good : page::Tone::Plain;
    std::vector<page::TableCell> row = {page::words(arena.request.entrants[i].name, tone),
                                        page::number(judged.stages_per_rank, 0),
                                        page::number(judged.held, 2),
                                        page::number(judged.makespan, 3),
                                        page::number(100 * judged.bubble, 2),
                                        page::number(100 * judged.over_bound(), 2),
                                        page::words(semantics_text(judged))};
    for (const Transfers& transfers : judged.transfers)
      if (!transfers.deadlock.empty())
        row.back().hint += fmt::format("receives {}, {}\n", transfers.receives, transfers.deadlock);
    for (const ClusterTime& time : judged.on)
      row.push_back(time.refused.empty() ? page::number(1e3 * time.simulated_s, 3) : page::words("-", page::Tone::Muted));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::vector<std::string> left_out(const Arena& arena, const Round& round) {
  std::vector<std::string> items;
  for (const Judged& judged : round.judged) {
    if (judged.legal()) continue;
    std::string text = arena.request.entrants[judged.entrant].name + ": " + judged.refused;
    for (const std::string& fault : judged.faults) text += fault + "; ";
    items.push_back(text);
  }
  return items;
}

}  // namespace

std::string to_page(const Arena& arena) {
  page::Page page("Arena of schedules", fmt::format("{} schedules, {} ranks, {} microbatches", arena.request.entrants.size(),
                                                    arena.request.ranks, arena.request.microbatches));
  page.note(
      "Green: no other schedule is as short and holds no more. A bound is that of every order of the same placement in the same "
      "memory, backwards split or not. Memory counts activations; bidirectional schedules hold the weights twice.");
  for (const Round& round : arena.rounds) {
    page.heading(fmt::format("Costs {}: 1:{:g}:{:g}", round.ratio.name, round.ratio.I, round.ratio.W));
    page.note(round.ratio.origin);
    page.add(front_plot(arena, round)).add(winners_table(arena, round)).add(table_of_all(arena, round));
    if (const std::vector<std::string> items = left_out(arena, round); !items.empty()) page.note("Left out:").list(items);
  }
  return page.to_html();
}

}  // namespace panpipe::arena
