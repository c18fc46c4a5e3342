// The memory of a device by part, against what the card has.
import { h } from './dom.js';
import { bytes, gib, percent } from './format.js';
import { put } from './state.js';

// The fullest device first; ranks whose devices hold the same appear once.
function distinct(document) {
  const seen = new Set();
  return [...(document.memory || [])].filter(item => {
    const own = JSON.stringify(item.parts);
    if (item.copies === undefined && seen.has(own)) return false;
    seen.add(own);
    return true;
  });
}

export function memoryBars(document) {
  const items = distinct(document);
  if (!items.length) return h('div');
  const fullest = items.reduce((a, b) => (b.peak_bytes > a.peak_bytes ? b : a)), limit = fullest.limit_bytes;
  const names = Object.entries(fullest.parts).sort((a, b) => b[1] - a[1]).filter(([, size]) => size > 0).map(([name]) => name);
  const scale = Math.max(limit, ...items.map(item => item.peak_bytes)) * 1.02, wide = size => (100 * size / scale).toFixed(2) + '%';
  const rank = item => document.metrics.per_device?.find(d => d.device === item.device)?.rank ?? item.device;
  const words = item => `rank ${rank(item)}: ${names.map(n => `${n} ${bytes(item.parts[n])}`).join(', ')}`;
  const title = `Memory of a GPU: ${gib(fullest.peak_bytes)} of ${gib(limit)} usable, ${percent(fullest.peak_bytes / limit, 0)}`;
  const bar = item => h('li', { class: item.peak_bytes > limit ? 'over' : '' },
    h('span', { class: 'name' }, `rank ${rank(item)}`),
    h('span', { class: 'stack', role: 'img', 'aria-label': words(item) },
      names.map(name => h('i', { class: `m${names.indexOf(name) % 8}`, style: `width:${wide(item.parts[name])}`,
        title: `${name}: ${bytes(item.parts[name])}` })),
      h('b', { class: 'limit', style: `left:${wide(limit)}` })),
    h('span', { class: 'num' }, gib(item.peak_bytes)));
  const shown = items.slice(0, 16);
  return h('section', { 'aria-labelledby': 'memory-title' },
    h('h2', { id: 'memory-title' }, title),
    h('ul', { class: 'stacks' }, shown.map(bar)),
    items.length > shown.length ? h('p', { class: 'soft' }, `${items.length - shown.length} more ranks are not drawn`) : null,
    h('ul', { class: 'legend', 'aria-label': `Parts of rank ${rank(fullest)}` },
      names.map((name, i) => h('li', {}, h('i', { class: `m${i % 8}` }), `${name} ${bytes(fullest.parts[name])}`))));
}

// What the engine knows to need less memory, each a click away: "memory: with offload.optimizer=cpu needs 5.03 GiB less: it fits surely".
export const isRemedy = text => /^memory: with [\w.]+=\S+/.test(text);

export function remedies(answer) {
  const found = (answer.warnings || []).filter(isRemedy).map(text => text.match(/^memory: with ([\w.]+)=(\S+) (.*)$/));
  if (!found.length) return h('div');
  return h('section', { 'aria-labelledby': 'remedies-title', class: 'remedies' },
    h('h2', { id: 'remedies-title' }, 'What would need less memory'),
    h('ul', { class: 'remarks' }, found.map(([, key, value, rest]) => h('li', {},
      h('button', { type: 'button', onclick: () => put({ [key]: value }) }, `Set ${key} to ${value}`), ` ${rest}`))));
}
