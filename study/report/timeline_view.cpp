#include "study/report/timeline_view.hpp"

#include <fmt/format.h>

#include "present/picture/timeline_picture.hpp"

namespace panpipe::study {
namespace {

constexpr const char* kStyle = R"css(
.timeline { overflow: auto; max-height: 90vh; border: 1px solid var(--idle); cursor: grab; }
.bar { display: flex; flex-wrap: wrap; gap: 6px 10px; align-items: center; margin: 6px 0; font-size: 13px; }
.bar button { font: inherit; color: var(--ink); background: var(--idle); border: 1px solid var(--grid); border-radius: 4px; padding: 2px 10px; cursor: pointer; }
@media print { .bar { display: none; } .timeline { overflow: visible; max-height: none; border: none; } }
)css";

// The picture is a tree of its own, so that its style stays inside. Narrow screens show a part of it.
constexpr const char* kView = R"html(<div class="bar"><button type="button" data-zoom="2">zoom in</button>
<button type="button" data-zoom="0.5">zoom out</button><button type="button" data-zoom="0">whole step</button>
<span class="soft">wheel with Ctrl zooms, dragging moves; with the picture focused: + − 0 and arrows</span></div>
<div class="timeline wide" tabindex="0" role="img" aria-label="passes, transfers and memory of every rank over time">
<template shadowrootmode="open"><style>svg { display: block; height: auto; width: calc(var(--zoom, 1) * max(100%, 1000px)); }
@media print { svg { width: 100%; max-height: 200mm; } }</style>
)html";

constexpr const char* kScript = R"js(
const view = document.querySelector(".timeline");
let zoom = 1, grabbed = null;
// The point at (x, y) of the view stays there.
const show = (next, x = view.clientWidth / 2, y = view.clientHeight / 2) => {
  const now = Math.max(1, Math.min(next, 32)), left = (view.scrollLeft + x) * now / zoom, top = (view.scrollTop + y) * now / zoom;
  view.style.setProperty("--zoom", zoom = now);
  view.scrollTo(left - x, top - y);
};
for (const button of document.querySelectorAll("[data-zoom]")) button.addEventListener("click", () => show(zoom * button.dataset.zoom));
view.addEventListener("keydown", (event) => {
  const factor = { "+": 2, "=": 2, "-": 0.5, "0": 0 }[event.key];
  if (factor === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  show(zoom * factor);
});
view.addEventListener("wheel", (event) => {
  if (!event.ctrlKey) return;
  event.preventDefault();
  const at = view.getBoundingClientRect();
  show(zoom * Math.exp(-event.deltaY / 300), event.clientX - at.left, event.clientY - at.top);
}, { passive: false });
view.addEventListener("pointerdown", (event) => {
  if (event.pointerType === "mouse") grabbed = { x: event.clientX + view.scrollLeft, y: event.clientY + view.scrollTop };
});
addEventListener("pointerup", () => { grabbed = null; });
view.addEventListener("pointermove", (event) => { if (grabbed) view.scrollTo(grabbed.x - event.clientX, grabbed.y - event.clientY); });
)js";

}  // namespace

void add_timeline_view(present::Page& page, const std::vector<const Timeline*>& steps, const std::vector<std::string>& names) {
  page.add_style(kStyle);
  page.add_markup(fmt::format("{}{}</template></div>\n", kView, present::to_svg(present::picture_of(steps, names))));
  page.add_script(kScript);
}

}  // namespace panpipe::study
