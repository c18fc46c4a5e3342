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

const signed = seconds => (seconds > 0 ? '+' : '−') + time(Math.abs(seconds));

const figures = [
  ['step time', m => m.step_time_s, time], ['80 % of runs from', m => m.step_time_p10_s, time], ['to', m => m.step_time_p90_s, time],
  ['compute', m => m.compute_s, time], ['exposed communication', m => m.exposed_communication_s, time],
    ['bubble', m => m.bubble_step, percent],
  ['samples/s', m => m.samples_per_s, count], ['MFU', m => m.mfu, percent],
    ['peak memory', m => m.peak_memory_bytes, gib],
  ['usable', m => m.memory_limit_bytes, gib], ['run', m => m.run_time_s, time], ['GPU hours', m => m.gpu_hours, count],
    ['cost', m => m.cost, null],
];

const changed_by = (a, b) => (a && b ? change(a, b) : a ? 'gone' : 'new');
const most = 60;  // rows of a table

export class Compare {
  // `engine`: a Caller.
  constructor(engine) {
    this.engine = engine;
    this.timeline = new Timeline('Both steps on one axis');
    this.timeline.element.hidden = true;
    this.body = h('div');
    this.actions = h('div', { id: 'compare-actions' });
    this.element = h('div', { class: 'view', id: 'compare' }, h('h2', {}, 'Before and after'), this.body, this.timeline.element,
      this.actions);
  }

  // Action by action, as panpipe compare does.
  async compareActions(before, now) {
    const asked = JSON.stringify([before, now]);
    if (asked === this.asked) return;
    this.asked = asked;
    const answer = await this.engine.ask({ call: 'compare', a: before, b: now }, { channel: 'compare' });
    if (!answer) return;
    this.timeline.element.hidden = !answer.picture;
    if (answer.error) return this.actions.replaceChildren(h('p', { class: 'error' }, answer.error.message));
    if (!answer.picture)
      return this.actions.replaceChildren(h('p', { class: 'soft' }, 'The result has no timeline: figures alone are compared.'));
    this.timeline.set(answer.picture, true);
    const { actions, worst, idle } = answer.document, differing = worst.filter(row => row.a_s !== row.b_s);
    this.timeline.mark(differing.map(row => row.action));
    if (answer.differs) return this.actions.replaceChildren(h('p', { id: 'compare-differs' }, answer.differs.replace(/\bA\b/g, '“before”')
      .replace(/\bB\b/g, '“now”').replace('these results', 'These steps') + '.'));
    const columns = (name, of, a, b) => [{ name, text: of }, { name: 'before', number: true, text: row => time(row[a]) },
      { name: 'now', number: true, text: row => time(row[b]) }, { name: 'change', number: true, text: row => changed_by(row[a], row[b]) }];
    const classes = actions.filter(row => row.mean_a_s !== row.mean_b_s || row.count_a !== row.count_b)
      .sort((x, y) => Math.abs(y.total_difference_s) - Math.abs(x.total_difference_s));
    const waits = idle.filter(row => row.a_s !== row.b_s).sort((x, y) => Math.abs(y.b_s - y.a_s) - Math.abs(x.b_s - x.a_s));
    this.actions.replaceChildren(
      classes.length ? table('Actions whose mean time differs, by the difference of their sums',
        [...columns('action', row => row.action + (row.stage < 0 ? '' : ` of stage ${row.stage}`), 'mean_a_s', 'mean_b_s'),
          { name: 'in all', number: true, text: row => signed(row.total_difference_s) }], classes.slice(0, most))
        : h('p', {}, 'Every action takes the same time in both steps.'),
      differing.length ? table('The actions that differ most, outlined above',
        columns('action', row => h('button', { type: 'button', class: 'link', onclick: () => this.timeline.find(row.action) },
          `${row.action} on device ${row.device}`), 'a_s', 'b_s'), differing) : '',
      waits.length ? table('What the devices wait for', columns('idle: waiting for', row => `device ${row.device}: ${row.waiting_for}`
        + (row.peer < 0 ? '' : `, from device ${row.peer}`), 'a_s', 'b_s'), waits.slice(0, most)) : '');
  }

  // `now`, `before`: answers; `requests`: what they answer.
  show(now, before, fault, requests) {
    const keep = h('button', { type: 'button', onclick: keepAsBefore, id: 'compare-keep' }, 'Keep the present one as before');
    if (!before?.document || !now?.document) {
      const wrong = before?.error || fault;
      this.timeline.element.hidden = true;
      this.asked = undefined;
      this.actions.replaceChildren();
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
    this.compareActions(requests.before, requests.now);
  }
}
