#include "present/page/page_parts.hpp"

namespace panpipe::present {

// Sorting: stable; numbers by data-v, the rest by text; what has no number stands last either way. Hints: the browser's own come
// late and small, so they are shown by hand; without the script the browser's remain.
const char* page_script() {
  return R"js(
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
    const numeric = head.classList.contains("num");
    const before = head.getAttribute("aria-sort");
    const descending = before ? before === "ascending" : numeric;
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const keyed = [...body.rows].map((row) => {
      const cell = row.cells[column];
      return { row, number: cell.dataset.v === undefined ? NaN : Number(cell.dataset.v), text: cell.textContent };
    });
    const byText = new Intl.Collator(undefined, { numeric: true });
    const sign = descending ? -1 : 1;
    keyed.sort((a, b) => {
      const none = isNaN(a.number) - isNaN(b.number);
      if (none) return none;
      return sign * (isNaN(a.number) ? byText.compare(a.text, b.text) : a.number - b.number);
    });
    body.append(...keyed.map((entry) => entry.row));
  }));
}
// Paper cannot be unfolded.
const folded = () => document.querySelectorAll("details");
addEventListener("beforeprint", () => folded().forEach((part) => {
  part.dataset.open = part.open ? "1" : "";
  part.open = true;
}));
addEventListener("afterprint", () => folded().forEach((part) => (part.open = part.dataset.open === "1")));
const hint = document.createElement("div");
hint.id = "hint";
hint.hidden = true;
document.body.append(hint);
panpipe.hint = (text, x, y) => {
  hint.hidden = !text;
  if (!text) return;
  hint.textContent = text;
  const box = hint.getBoundingClientRect();
  hint.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
  hint.style.top = (y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18) + "px";
};
const textOf = (element) => {
  const title = element.tagName === "title" ? null : [...element.children].find((child) => child.tagName === "title");
  if (title) {
    element.dataset.hint = title.textContent;
    element.setAttribute("aria-label", title.textContent);
    title.remove();
  } else if (element.title) {
    element.dataset.hint = element.title;
    element.removeAttribute("title");
  }
  return element.dataset.hint;
};
document.addEventListener("pointermove", (event) => {
  const element = event.composedPath()[0].closest("svg *, td, th, dd");  // inside a drawing's own tree, too
  panpipe.hint(element ? textOf(element) : "", event.clientX, event.clientY);
});
document.addEventListener("pointerleave", () => panpipe.hint(""));
)js";
}

}  // namespace panpipe::present
