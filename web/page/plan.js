// The search for the best plan, with the person's own plan in the same table. It runs in a worker of its own, which Stop ends.
import { h, table } from './dom.js';
import { Caller } from './engine.js';
import { detach } from './controls.js';
import { state, put, listen, scenarioText, settingsOf } from './state.js';
import { time, range, gib, percent, grouped } from './format.js';
import { verdict } from './answer.js';

const searcher = new Caller();
const topics = [
  ['degrees', 'degrees', ['parallel.pipeline', 'parallel.tensor', 'parallel.context', 'parallel.data', 'parallel.expert']],
  ['micro', 'microbatch', ['batch.micro']], ['schedule', 'schedule', ['schedule']], ['recompute', 'recompute', ['recompute']],
  ['zero', 'ZeRO', ['parallel.zero', 'parallel.sequence_parallel']],
];

const asked = () => scenarioText() + settingsOf().join();

const against = ratio => `${percent(Math.abs(1 - ratio))} ${ratio < 1 ? 'less' : 'more'}`;

export class Planner {
  // `resolved()`: the last answer's resolved scenario and values.
  constructor(resolved) {
    this.resolved = resolved;
    this.open = new Map(topics.map(([id, name]) => [id, h('input', { type: 'checkbox', checked: true, name: 'search-' + id })]));
    this.go = h('button', { type: 'button', class: 'primary', id: 'plan-go', onclick: () => this.start() }, 'Find the best plan');
    this.stop = h('button', { type: 'button', id: 'plan-stop', hidden: true, onclick: () => this.halt('Stopped. ') }, 'Stop');
    this.choice = h('details', { class: 'choice' }, h('summary', {}, 'what may change'),
      h('fieldset', { class: 'inline' }, h('legend', {}, 'The search may change'),
      topics.map(([id, name]) => h('label', {}, this.open.get(id), name))));
    this.status = h('p', { role: 'status', class: 'soft', id: 'plan-status' });
    this.result = h('div', { id: 'plan-result' });
    this.aged = h('p', { class: 'warn', hidden: true }, 'The scenario has changed since this search: “mine” is the plan of then.');
    listen(() => { this.aged.hidden = !this.of || this.of === asked(); });
    this.element = h('section', { 'aria-label': 'The best plan', class: 'plan' }, this.status, this.aged, this.result);
  }

  request() {
    const { scenario, values } = this.resolved();
    const fixed = topics.filter(([id]) => !this.open.get(id).checked).flatMap(([, , keys]) => keys);
    const pinned = fixed.map(key => [key, state.set[key] ?? values?.[key]?.value]).filter(([, value]) => value)
      .map(([key, value]) => `${key}=${value}`);
    return { call: 'plan', scenario: state.base && scenario ? scenario : scenarioText(), name: state.base?.name || 'page.yaml',
      files: state.files,
      settings: [...(state.base && !scenario ? settingsOf() : []), ...pinned], open: true, candidates: 10 };
  }

  async start() {
    this.halt('');
    const begin = performance.now(), said = () => `${((performance.now() - begin) / 1000).toFixed(1)} s`;
    const of = asked();
    let seen = '';
    this.go.disabled = true;
    this.stop.hidden = false;
    this.stop.focus();
    this.clock = setInterval(() => { this.status.textContent = `Searching: ${said()}${seen}`; }, 100);
    const answer = await searcher.ask(this.request(), { progress: p => {
      seen = `, ${grouped(p.evaluated)} plans evaluated${p.best ? `, the best so far ${time(p.best)}` : ''}`;
    } });
    if (!answer) return;  // stopped
    this.of = of;
    this.aged.hidden = of === asked();
    this.halt('');
    this.show(answer, said());
    this.result.querySelector('button')?.focus();
  }

  halt(text) {
    clearInterval(this.clock);
    searcher.stop();
    if (text) this.status.textContent = text + 'The answers above are of your own plan.';
    const focus = document.activeElement === this.stop;
    this.go.disabled = false;
    this.stop.hidden = true;
    if (focus) this.go.focus();
  }

  show(answer, took) {
    if (answer.error) {
      this.status.textContent = '';
      this.result.replaceChildren(h('p', { class: 'error' }, answer.error.message,
        answer.error.help ? h('span', { class: 'help' }, answer.error.help) : ''));
      return;
    }
    const { best, yours, candidates = [], search, tie_within: tie, notes = [] } = answer.document;
    const rows = [...(yours ? [{ ...yours, mine: true }] : []), ...candidates];
    const mine = yours?.metrics?.step_time_s;
    this.status.textContent = `${grouped(search?.evaluated ?? 0)} plans evaluated in ${took}.`
      + (search?.proved_optimal ? ' No plan of the search is estimated faster.' : '') + (tie ? ` Plans within ${percent(tie)} are a tie.`
        : '');
    const columns = [
      { name: '', text: row => (row.mine ? 'mine' : h('button',
        { type: 'button', 'aria-label': `Take plan ${candidates.indexOf(row) + 1}`, onclick: () => this.take(row) }, 'Take')) },
      { name: 'step', number: true, text: row => time(row.metrics.step_time_s) },
      { name: '80 % of runs', number: true, text: row =>
        (row.metrics.step_time_p10_s ? range(row.metrics.step_time_p10_s, row.metrics.step_time_p90_s) : '') },
      { name: 'against mine', number: true, text: row =>
        (row.mine || !mine ? '' : against(row.metrics.step_time_s / mine) + (row.tie ? ', a tie' : '')) },
      { name: 'memory', number: true, text: row => gib(row.metrics.peak_memory_bytes) },
      { name: 'fits', text: row => { const [words, mood] = verdict(row.metrics); return h('span', { class: mood }, words); } },
      { name: 'plan', long: true, text: row => row.summary },
    ];
    this.result.replaceChildren(table('Plans, the best first; those that do not fit stand last', columns, rows,
      row => (row.mine ? 'mine' : '')),
      h('ul', { class: 'remarks' }, (best?.cautions || []).map(text => h('li', { class: 'warn' }, text))),
      notes.length ? h('details', {}, h('summary', {}, 'What was searched'), h('ul', {}, notes.map(note => h('li', {}, note)))) : '');
  }

  take(row) {
    if (state.base) detach();
    put(planSettings(row.settings));
  }
}

// A candidate's settings as keys of the page: its own cuts too, where they are not even; the samples of a step stay as stated.
export function planSettings(settings) {
  const values = { partition: null };
  for (const key of Object.keys(state.set)) if (key.startsWith('schedule.') || key === 'parallel.virtual_stages') values[key] = null;
  for (const [key, value] of Object.entries(settings)) {
    const text = typeof value === 'object' ? JSON.stringify(value) : String(value), map = text.match(/^\{(.*)\}$/);
    if (key === 'batch.microbatches' && state.set['batch.global']) continue;
    if (map && key === 'schedule')
      for (const part of map[1].split(/, */)) {
        const [name, option] = part.replace(/"/g, '').split(/: */);
        values[name === 'name' ? 'schedule' : `schedule.${name}`] = option;
      }
    else values[key === 'schedule.name' ? 'schedule' : key] = text === '[]' ? null : text;
  }
  return values;
}
