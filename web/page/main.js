// Starts the page: the engine, the state from the address, the views; every change asks for a new answer.
import { h, byId } from './dom.js';
import { loadEngine, Caller } from './engine.js';
import { state, listen, changed, replace, requestOf, addressOf, stateOf } from './state.js';
import { setPalette } from './palette.js';
import { makeControls, updateControls, showErrors } from './controls.js';
import { answerCards, whereTheTimeGoes, remarks, heading, strip } from './answer.js';
import { memoryBars, remedies } from './memory.js';
import { Timeline } from './timeline.js';
import { Planner } from './plan.js';
import { Compare, keepAsBefore, letGo } from './compare.js';
import { Laboratory } from './laboratory.js';
import { Links } from './links.js';
import { takeSection } from './take.js';
import { listenToDrops, openInside } from './drop.js';

const views = [['predict', 'Predict'], ['compare', 'Compare'], ['laboratory', 'Schedules'], ['links', 'Links']];
const engine = new Caller();
let engineLists = {}, parts, answer, fault, beforeAnswer, beforeRequest, beforeOf, ownAddress, startTime = performance.now();

// Figures come first, then the picture, then hints once the hand rests: they take the engine longer.
const wanted = ['document', 'text', 'values', 'scenario', 'warnings'];

function makePage() {
  const timeline = new Timeline('The step'), planner = new Planner(() => answer || {});
  parts = { timeline, planner, compare: new Compare(engine), laboratory: new Laboratory(engine, engineLists), links: new Links(engine),
    top: h('div', { id: 'answer', 'aria-live': 'off' }), faults: h('div', { id: 'faults', role: 'alert' }),
      middle: h('div', { class: 'pair' }), notes: h('div') };
  const simulated = h('input', { type: 'checkbox', id: 'simulate',
    onchange: e => { state.engine = e.target.checked ? 'simulate' : 'estimate'; changed(); } });
  parts.simulated = simulated;
  parts.before = h('span', { class: 'row', id: 'before-row' });
  const actions = h('div', { class: 'row actions' },
    planner.go, planner.stop, planner.choice, parts.before,
    h('label', { title: 'Transfers share links, as the network does; slower than the estimate on idle links' }, simulated,
      'simulate shared links'));
  const predict = h('div', { class: 'view split', id: 'predict' },
    makeControls(engineLists, async scenario => (await engine.ask({ call: 'predict', scenario, name: 'machine.yaml',
    want: ['values'] }))?.values),
    h('div', { class: 'result' }, parts.faults, parts.top, actions, planner.element, parts.middle,
      h('section', { 'aria-labelledby': 'step-title' }, h('h2', { id: 'step-title' }, 'The step'), timeline.element),
      parts.notes, takeSection(request => engine.ask(request), engineLists)));
  byId('main').replaceChildren(predict, parts.compare.element, parts.laboratory.element, parts.links.element);
  byId('views').replaceChildren(...views.map(([id, name]) => h('a', { href: '#view=' + id, 'data-view': id, onclick: event => {
    event.preventDefault();
    state.view = id;
    changed('view');
  } }, name)));
}

function showView() {
  if (!views.some(([id]) => id === state.view)) state.view = 'predict';
  for (const [id] of views) byId(id).hidden = state.view !== id;
  for (const link of byId('views').children)
    if (link.dataset.view === state.view) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  byId('strip').hidden = state.view !== 'predict';
  document.title = `Panpipe: ${views.find(([id]) => id === state.view)?.[1] ?? ''}`;
}

let addressTimer, restTimer;
function writeAddress(step) {
  clearTimeout(addressTimer);
  addressTimer = setTimeout(async () => {
    ownAddress = '#' + await addressOf();
    if (location.hash === ownAddress) return;
    if (step) history.pushState(null, '', ownAddress);  // Back returns to the view before
    else history.replaceState(null, '', ownAddress);
  }, 120);
}

async function predict() {
  clearTimeout(restTimer);
  const fresh = await engine.ask(requestOf(state, wanted), { channel: 'predict' });
  if (!fresh) return;  // a newer change is on its way
  const others = showErrors(fresh.error);
  parts.faults.replaceChildren(...others.map(d => h('p', { class: 'error' }, d.key ? h('code', {}, d.key + ': ') : '', d.message,
    d.help ? h('span', { class: 'help' }, d.help) : '')),
    fresh.error && !others.length ? h('p', { class: 'error' },
      `See the marked field${answer ? ': the figures below are those before the change' : ''}.`)
      : '');
  for (const part of ['predict', 'strip']) byId(part).classList.toggle('stale', Boolean(fresh.error));
  fault = fresh.error;
  if (fault) return;
  answer = fresh;
  // Files are named in the resolved scenario alone.
  const named = (section, key) =>
    answer.scenario?.match(new RegExp(`^${section}:(?:\\n(?: .*\\n)*?  ${key}:)? ([^\\s{]+)`, 'm'))?.[1];
  for (const [section, key] of [['cluster', 'file'], ['workload', 'config']])
    if (named(section, key)) answer.values[`${section}.${key}`] ??= { value: named(section, key) };
  updateControls(answer.values || {});
  showAnswer();
  await addPicture(fresh);
}

// A finer part of the last picture, where it was merged.
const viewOf = async (from, to, pixels) => (await engine.ask({ call: 'view', from, to, pixels }, { channel: 'view' }))?.picture;

async function addPicture(to) {
  const more = await engine.ask(requestOf(state, ['picture']), { channel: 'predict' });
  if (!more?.picture || answer !== to) return;
  to.picture = more.picture;
  parts.timeline.set(to.picture, true, viewOf);
  clearTimeout(restTimer);
  restTimer = setTimeout(async () => {
    byId('spoken').textContent = byId('strip').textContent;
    const last = answer === to && (await engine.ask(requestOf(state, ['hints']), { channel: 'predict' }));
    if (!last?.hints || answer !== to) return;
    to.hints = last.hints;
    parts.notes.replaceChildren(remarks(to));
  }, 600);
}

async function getBefore() {
  if (state.result) {
    [beforeAnswer, beforeOf] = [state.result, undefined];
    beforeRequest = { result: 'before.json', files: { 'before.json': state.result.text } };
    return;
  }
  if (!state.before) {
    beforeAnswer = beforeOf = undefined;
    return;
  }
  if (beforeOf === state.before) return;
  beforeOf = state.before;
  beforeRequest = requestOf(await stateOf(state.before, engineLists.examples), wanted);
  beforeAnswer = await engine.ask(beforeRequest);
}

function showAnswer() {
  const m = answer.document.metrics;
  parts.top.dataset.step = m.step_time_s;  // for tests
  byId('strip').replaceChildren(...strip(answer));
  parts.top.replaceChildren(heading(answer), answerCards(answer, beforeAnswer));
  parts.middle.replaceChildren(h('div', {}, memoryBars(answer.document), remedies(answer)), whereTheTimeGoes(m));
  parts.notes.replaceChildren(remarks(answer));
  parts.simulated.checked = state.engine === 'simulate';
  parts.before.replaceChildren(...(state.before || state.result
    ? [h('button', { type: 'button', id: 'let-go', onclick: letGo }, 'Let “before” go'),
      h('button', { type: 'button', onclick: () => { state.view = 'compare'; changed('view'); } }, 'Compare')]
    : [h('button', { type: 'button', id: 'keep', onclick: keepAsBefore }, 'Keep as “before”')]));
  if (state.view === 'compare') showComparison();
}

const showComparison = () => parts.compare.show(answer, beforeAnswer, fault, { before: beforeRequest, now: requestOf(state, []) });

// For tests and for the curious: milliseconds from opening to the first answer, and how many changes have been answered.
function settled() {
  const marks = document.documentElement.dataset;
  marks.ready ??= (performance.now() - startTime).toFixed(0);
  marks.answers = String(Number(marks.answers || 0) + 1);
}

async function onChange(what) {
  await answerChange(what);
  settled();
}

async function answerChange(what) {
  showView();
  writeAddress(what === 'view');
  if (what === 'scenario' || what === 'all') updateControls();
  if (state.view === 'laboratory') return parts.laboratory.update();
  if (what === 'before') await getBefore();
  if (what !== 'view' || !answer) await predict();
  if (state.view === 'links') parts.links.update();
  if (state.view === 'compare') {
    await getBefore();
    showComparison();
  }
}

async function readAddress() {
  if (location.hash === ownAddress) return;
  const problems = [], read = await stateOf(location.hash, engineLists.examples, problems);
  beforeOf = undefined;
  replace(read);
  if (problems.length) byId('status').textContent = problems.join('; ');
  await getBefore();
  if (answer && beforeAnswer) showAnswer();
}

async function showEarly() {
  if (/(^|[#&])(example|view)=/.test(location.hash) || byId('inside')) return;
  const read = await stateOf(location.hash), early = await engine.ask(requestOf(read, ['document', 'text']));
  if (!early?.document) return;
  byId('main').replaceChildren(h('div', { class: 'view early' }, heading(early), answerCards(early)));
  document.documentElement.dataset.early = (performance.now() - startTime).toFixed(0);
}

async function main() {
  const status = byId('status'), linked = location.hash.length > 1;
  try {
    await loadEngine();
    // The lists take as long as everything else: they come from a second worker, and the first figures do not wait for them.
    const lister = new Caller(), asked = lister.ask({ call: 'lists' });
    await showEarly();
    engineLists = await asked;
    lister.stop();
    if (engineLists.error) throw new Error(engineLists.error.message);
    engineLists = { ...engineLists, ...engineLists.lists };
  } catch (error) {
    status.textContent = `The engine did not start: ${error.message}. This page needs WebAssembly with exceptions: Chrome 111, `
      + 'Firefox 113, Safari 16.4 or newer.';
    return;
  }
  setPalette(engineLists.palette);
  makePage();
  listenToDrops(engine);
  listen(onChange);
  window.addEventListener('hashchange', readAddress);
  status.textContent = '';
  byId('footer').replaceChildren(h('p', {}, `Panpipe ${engineLists.version || ''}. `,
    'Everything is computed in this page; nothing is sent anywhere.'),
    h('p', {}, 'Examples: ', ...(engineLists.examples
      || []).flatMap(({ name }) => [h('a', { href: `#example=${name}` }, name.split('/').at(-1).replace('.yaml', '')), ' '])));
  await readAddress();
  if (!linked) openInside();
}

main();
