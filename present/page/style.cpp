#include <fmt/format.h>

#include "present/page/page_parts.hpp"
#include "present/picture/palette.hpp"

namespace panpipe::present {
namespace {

constexpr const char* kRules = R"(
* { box-sizing: border-box; }
html { color-scheme: light dark; }
body { margin: 0 auto; padding: 24px 28px 60px; max-width: 1900px; background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 24px; margin: 0 0 2px; } h2 { font-size: 19px; margin: 34px 0 8px; } h3 { font-size: 16px; margin: 22px 0 6px; }
p { max-width: 78ch; margin: 8px 0; } li { max-width: 78ch; }
.soft { color: var(--soft); } .good { color: var(--good); } .bad { color: var(--over); }
a { color: inherit; } nav ol { display: flex; flex-wrap: wrap; gap: 2px 26px; padding-left: 18px; margin: 12px 0; }
:focus-visible { outline: 2px solid var(--focus); outline-offset: 2px; }
.figures { display: grid; grid-template-columns: repeat(var(--columns), minmax(0, max-content)); gap: 10px; margin: 14px 0; padding: 0; }
@media (max-width: 900px) { .figures { grid-template-columns: repeat(auto-fill, minmax(min(100%, 150px), 1fr)); } }
.figures div { border: 1px solid var(--grid); border-radius: 6px; padding: 8px 14px; min-width: 120px; }
.figures dt { color: var(--soft); font-size: 13px; } .figures dd { margin: 0; font-size: 21px; font-weight: 600; }
.figures dd + dd { font-size: 12.5px; font-weight: 400; color: var(--soft); max-width: 34ch; }
.wide { overflow-x: auto; margin: 10px 0; } table { border-collapse: collapse; font-size: 13.5px; }
caption { text-align: left; color: var(--soft); padding: 2px 0 6px; }
th, td { padding: 3px 10px 3px 8px; text-align: left; border-bottom: 1px solid var(--idle); vertical-align: top; white-space: nowrap; }
th { border-bottom: 1px solid var(--grid); vertical-align: bottom; white-space: normal; } tbody tr:hover { background: var(--idle); }
td.long { white-space: normal; min-width: 20ch; }
th.num, td.num { text-align: right; font-variant-numeric: tabular-nums; }
th button { all: unset; cursor: pointer; font-weight: 600; } th button:focus-visible { outline: 2px solid var(--focus); }
th[aria-sort=ascending] button::after { content: " ▲"; } th[aria-sort=descending] button::after { content: " ▼"; }
figure { margin: 18px 0; container-type: inline-size; } figcaption { font-weight: 600; margin-bottom: 4px; }
.side { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 540px), 1fr)); gap: 0 28px; } .side figure { min-width: 0; }
@container (max-width: 620px) { .plot .second { display: none; } }
.legend { display: flex; flex-wrap: wrap; gap: 2px 18px; padding: 0; margin: 4px 0; list-style: none; font-size: 13px; }
svg.plot { display: block; overflow: visible; } .plot .at { overflow: visible; } .outlines path { vector-effect: non-scaling-stroke; }
svg.parts { display: block; margin-top: 4px; }
.plot text { font-size: 12px; fill: var(--ink); } .plot text.soft { fill: var(--soft); } .plot text.head { font-weight: 600; }
.plot .mid { text-anchor: middle; } .plot .end { text-anchor: end; }
.plot .grid { stroke: var(--idle); fill: none; } .plot .axis { stroke: var(--grid); fill: none; }
.plot .band { fill: var(--idle); } .plot .diagonal { stroke: var(--soft); fill: none; }
.plot .front { stroke: var(--ink); fill: none; stroke-width: 1.4; stroke-dasharray: 5 3; }
.plot .line { fill: none; stroke-width: 1.8; } .d1 { stroke-dasharray: 7 3; } .d2 { stroke-dasharray: 2 2; } .d3 { stroke-dasharray: 8 2 2 2; }
.plot text.label { paint-order: stroke; stroke: var(--paper); stroke-width: 3px; } @container (max-width: 620px) { .plot .at .label { display: none; } }
.picture { display: block; }
.plot .m { stroke: var(--paper); stroke-width: 0.7; } .plot .m:hover, .plot .b:hover { stroke: var(--ink); stroke-width: 1.5; }
@media screen and (max-width: 640px) { body { padding: 14px 14px 40px; } .figures div { min-width: 0; }
  .wide th:first-child, .wide tbody td:first-child { position: sticky; left: 0; background: var(--paper); border-right: 1px solid var(--idle);
    white-space: normal; overflow-wrap: break-word; max-width: 45vw; } }
pre { background: var(--idle); padding: 10px 14px; border-radius: 6px; overflow-x: auto; font-size: 12.5px; line-height: 1.4; }
summary { cursor: pointer; }
#hint { position: fixed; z-index: 9; pointer-events: none; background: var(--ink); color: var(--paper); padding: 4px 9px; border-radius: 4px;
  font-size: 12.5px; white-space: pre-line; max-width: 420px; } #hint[hidden] { display: none; }
@media print { body { padding: 0; max-width: none; font-size: 11px; } table { font-size: 8.5px; } figure, thead, tr, .figures div { break-inside: avoid; }
  h1 { font-size: 19px; } h2 { font-size: 15px; margin-top: 20px; } h3 { font-size: 13px; } .figures div { padding: 4px 10px; min-width: 0; }
  .figures dt, .figures dd + dd { font-size: 10px; } .figures dd { font-size: 15px; } .legend, caption { font-size: 10px; }
  h2, h3, caption, thead, .legend { break-after: avoid; } thead { display: table-header-group; } .wide { overflow: visible; }
  th, td { padding: 2px 6px 2px 4px; white-space: normal; overflow-wrap: break-word; } td.long { min-width: 18ch; }
  svg.parts { width: 80px; } .picture { max-width: 100%; } pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 8.5px; } nav { display: none; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
)";

std::string variables(bool dark) {
  const NeutralColours& c = neutral_colours(dark);
  return fmt::format(
      ":root {{ --paper: {}; --ink: {}; --soft: {}; --idle: {}; --grid: {}; --curve: {}; --fill: {}; --over: {}; --good: {}; "
      "--focus: {}; }}\n",
      c.paper, c.ink, c.soft, c.idle, c.grid, c.curve, c.fill, c.over, dark ? "#4cc38a" : "#00734f", series_colour(0));
}

}  // namespace

std::string page_style() {
  std::string style = variables(false) + "@media screen and (prefers-color-scheme: dark) {\n" + variables(true) + "}\n" + kRules;
  for (std::size_t i = 0; i < kSeriesColours; ++i)
    style += fmt::format(
        ".f{0} {{ fill: {1}; }} .plot .h{0} {{ fill: var(--paper); stroke: {1}; stroke-width: 1.6; }} .l{0} {{ stroke: {1}; }}\n",
        i, series_colour(i));
  return style;
}

}  // namespace panpipe::present
