// Two predictions: the one that was kept, and the present one.
import { h, table } from './dom.js';
import { state, changed, addressOf } from './state.js';
import { time, gib, percent, count, money, change, grouped } from './format.js';
import { tokensOf, verdict, heading } from './answer.js';
import { Timeline } from './timeline.js';

export async function keepAsBefore() {
  const { before, ...rest } = state;
  state.result = null;
  state.before = await addressOf({ ...rest, view: 'predict', lab: {} });
  changed('before');
}

export function letGo() {
  state.before = state.result = null;
  changed('before');
}

const seconds = { s: 1, ms: 1e-3, 'µs': 1e-6 };

// Both steps on one axis: the lanes of a rank under each other.
export function bothPictures(a, b) {
  const scale = (seconds[b.time_unit] ?? 1) / (seconds[a.time_unit] ?? 1);
  const scaled = lane => ({ ...lane, boxes: lane.boxes.map(([from, to, ...rest]) => [from * scale, to * scale, ...rest]),
    stripes: lane.stripes.map(([from, to, ...rest]) => [from * scale, to * scale, ...rest]),
      memory: lane.memory.map(([at, level]) => [at * scale, level]) });
  const named = (lane, which) => ({ ...lane, name: `${lane.name} ${which}` }), lanes = [];
  for (let i = 0; i < Math.max(a.lanes.length, b.lanes.length); ++i) {
    if (a.lanes[i]) lanes.push(named(a.lanes[i], 'before'));
    if (b.lanes[i]) lanes.push(named(scaled(b.lanes[i]), 'now'));
  }
  return { ...a, end: Math.max(a.end, b.end * scale), chunks: Math.max(a.chunks, b.chunks),
    memory_limit: Math.max(a.memory_limit || 0, b.memory_limit || 0), lanes };
}

const figures = [
  ['step time', m => m.step_time_s, time], ['80 % of runs from', m => m.step_time_p10_s, time], ['to', m => m.step_time_p90_s, time],
  ['compute', m => m.compute_s, time], ['exposed communication', m => m.exposed_communication_s, time],
    ['bubble', m => m.bubble_step, percent],
  ['samples a second', m => m.samples_per_s, count], ['MFU', m => m.mfu, percent],
    ['memory of the fullest GPU', m => m.peak_memory_bytes, gib],
  ['usable', m => m.memory_limit_bytes, gib], ['run', m => m.run_time_s, time], ['GPU hours', m => m.gpu_hours, count],
    ['cost', m => m.cost, null],
];

export class Compare {
  constructor() {
    this.timeline = new Timeline('Both steps on one axis');
    this.body = h('div');
    this.element = h('div', { class: 'view', id: 'compare' }, h('h2', {}, 'Before and after'), this.body, this.timeline.element);
  }

  show(now, before, fault) {
    const keep = h('button', { type: 'button', onclick: keepAsBefore, id: 'compare-keep' }, 'Keep the present one as before');
    this.timeline.element.hidden = !before?.picture || !now?.picture;
    if (!before?.document || !now?.document) {
      const wrong = before?.error || fault;
      this.body.replaceChildren(h('p', { class: wrong ? 'error' : '' }, wrong ? `${before?.error ? 'Before' : 'Now'}: ${wrong.message}`
        : 'Keep a prediction as “before”, then change something: both stand here, side by side.'), keep);
      return;
    }
    const a = before.document.metrics, b = now.document.metrics, currency = b.currency || a.currency || '';
    const text = (value, form) => (value === undefined ? '' : form ? form(value) : money(value, currency));
    const rows = figures.filter(([, get]) => get(a) !== undefined || get(b) !== undefined)
      .map(([name, get, form]) => ({ name, a: text(get(a), form), b: text(get(b), form),
        by: get(a) && get(b) !== undefined ? change(get(a), get(b)) : '' }));
    const [ta, tb] = [tokensOf(before), tokensOf(now)];
    if (ta && tb) rows.splice(6, 0, { name: 'tokens a second', a: grouped(ta), b: grouped(tb), by: change(ta, tb) });
    rows.splice(9, 0, { name: 'fits', a: verdict(a)[0], b: verdict(b)[0], by: '' });
    this.body.replaceChildren(
      h('div', { class: 'two' }, h('section', {}, h('h3', {}, 'Before'), heading(before)),
        h('section', {}, h('h3', {}, 'Now'), heading(now))),
      table('Figures', [{ name: '', text: r => r.name }, { name: 'before', number: true, text: r => r.a },
        { name: 'now', number: true, text: r => r.b },
        { name: 'change', number: true, text: r => r.by }], rows),
      h('div', { class: 'row' }, keep, h('button', { type: 'button', onclick: letGo }, 'Let “before” go'),
        state.before ? h('a', { class: 'button', href: '#' + state.before }, 'Go back to “before”') : ''));
    if (before.picture && now.picture) this.timeline.set(bothPictures(before.picture, now.picture), true);
  }
}
