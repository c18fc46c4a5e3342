// An order that cannot finish: the ranks that wait for each other, drawn as a ring.
import { h, svg } from './dom.js';

// [{rank, action, for, of}] out of the engine's problems, or null.
export function cycleOf(problems) {
  for (const { message } of problems) {
    if (!/a cycle/.test(message)) continue;
    const waits = [...message.matchAll(/rank (\d+) waits at (\S+) for ([^,;]+?)(?:, cell \d+)? of rank (\d+)/g)]
      .map(([, rank, action, wanted, of]) => ({ rank, action, for: wanted, of }));
    if (waits.length) return waits;
  }
  return null;
}

export function drawCycle(cycle) {
  const size = 260, middle = size / 2, radius = 82, count = cycle.length;
  const at = i => [middle + radius * Math.sin((2 * Math.PI * i) / count), middle - radius * Math.cos((2 * Math.PI * i) / count)];
  const words = cycle.map(w => `rank ${w.rank} stands at ${w.action} and waits for ${w.for} of rank ${w.of}`);
  const drawing = svg('svg', { viewBox: `0 0 ${size} ${size}`, class: 'cycle', role: 'img', 'aria-label': words.join('; ') },
    svg('defs', {}, svg('marker', { id: 'arrow', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto' },
      svg('path', { d: 'M0 0 L8 4 L0 8 z' }))));
  for (let i = 0; i < count; ++i) {
    const [x, y] = at(i), [u, v] = at(i + 1), length = Math.hypot(u - x, v - y) || 1, cut = 27, bend = count === 2 ? 26 : 8;
    const [mx, my] = [(x + u) / 2 + (bend * (v - y)) / length, (y + v) / 2 - (bend * (u - x)) / length];
    const from = [x + (cut * (mx - x)) / Math.hypot(mx - x, my - y), y + (cut * (my - y)) / Math.hypot(mx - x, my - y)];
    const to = [u + (cut * (mx - u)) / Math.hypot(mx - u, my - v), v + (cut * (my - v)) / Math.hypot(mx - u, my - v)];
    drawing.append(svg('path', { d: `M${from} Q${mx} ${my} ${to}`, class: 'edge', 'marker-end': 'url(#arrow)' }));
  }
  cycle.forEach((wait, i) => {
    const [x, y] = at(i);
    drawing.append(svg('circle', { cx: x, cy: y, r: 25 }), svg('text', { x, y: y - 3 }, `rank ${wait.rank}`),
      svg('text', { x, y: y + 10, class: 'small' }, wait.action));
  });
  return h('figure', { class: 'cycle-figure' }, drawing, h('figcaption', {}, words.map(line => h('p', {}, line + '.'))));
}
