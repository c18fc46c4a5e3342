// Files that a person drops or opens: each is read as what it is. Nothing is sent anywhere.
import { h, byId } from './dom.js';
import { state, put, changed, requestOf, scenarioText, settingsOf } from './state.js';
import { detach } from './controls.js';
import { keepAsBefore } from './compare.js';

const largest = 300e6;  // of a text that the engine gets

async function textOf(file) {
  if (file.size > largest) throw new Error(`${file.name} has ${(file.size / 1e6).toFixed(0)} MB; this page reads up to ${largest / 1e6}`);
  const stream = /\.gz$/.test(file.name) ? file.stream().pipeThrough(new DecompressionStream('gzip')) : file.stream();
  return new Response(stream).text();
}

function said(text, detail = '', ...more) {
  byId('status').replaceChildren(text, ...more, detail
    ? h('details', {}, h('summary', {}, 'What was read'), h('pre', { tabindex: '0' }, detail)) : '');
}

// What is wrong with a model's configuration, asked of a plain scenario with it; null: nothing.
async function faultOfConfig(name, text, engine) {
  const set = { cluster: 'h100x8', 'workload.config': name, 'workload.sequence': '4096', 'batch.micro': '1', 'batch.global': '64',
    precision: 'bf16' };
  const { error } = await engine.ask(requestOf({ ...state, base: null, set, files: { [name]: text }, engine: 'estimate' }, ['document']));
  return error?.file === name ? error : null;
}

function takeConfig(name, text) {
  if (state.base) detach();
  Object.assign(state, { view: 'predict', files: { ...state.files, [name]: text } });
  const sequence = state.set['workload.sequence'] || '4096';
  for (const key of Object.keys(state.set)) if (/^workload\b/.test(key)) delete state.set[key];
  put(state.base ? { workload: `{config: ${name}, sequence: ${sequence}}` } : { 'workload.config': name, 'workload.sequence': sequence });
}

function takeScenario(name, text, files) {
  Object.assign(state, { view: 'predict', base: { name, text }, set: {}, files });
  changed('all');
}

// A result, measured or predicted, is what the present prediction is compared with.
function takeResult(name, text) {
  const { timeline, ...document } = JSON.parse(text);
  Object.assign(state, { view: 'compare', result: { document: { ...document, heading: document.heading || [name] },
    text } });
  changed('before');
}

function takeOrder(text) {
  state.view = 'laboratory';
  state.lab.csv = text.trim();
  changed('all');
}

// Measurements narrow the interval: the cards then show how much against the answer without them. What cannot be read is not taken;
// then this answers with the error.
async function takeEvidence(name, text, engine) {
  const old = (state.set.evidence || '').replace(/^\[|\]$/g, ''), names = new Set([...old.split(', ').filter(Boolean), name]);
  const files = { ...state.files, [name]: text }, evidence = `[${[...names].join(', ')}]`;
  const { error } = await engine.ask(requestOf({ ...state, files, set: { ...state.set, evidence } }, ['document']));
  if (error) return error;
  if (!state.before) await keepAsBefore();
  Object.assign(state, { view: 'predict', files });
  put({ evidence });
  return null;
}

const sayError = (name, error) => said(`${error.message.startsWith(name) ? '' : `${name}: `}${error.message}`
  + (error.help ? ` (${error.help})` : ''), error.text);

const saidOf = { config: 'The model is now', scenario: 'The scenario is now', order: 'An order of passes, now in the laboratory:',
  result: 'A result, compared with the present prediction:' };

// Next to the scenario, which is a file for the engine, too.
function nameOf(file) {
  const name = file.name.replace(/\.gz$/, '');
  return name === (state.base?.name || 'page.yaml') ? `dropped-${name}` : name;
}

// Files may belong together (a launch script and its config.json), so they are read in one call.
export async function openFiles(list, engine) {
  const files = {};
  try {
    for (const file of list) files[nameOf(file)] = await textOf(file);
  } catch (error) {
    return said(error.message);
  }
  const names = Object.keys(files), isConfig = name => /"model_type"/.test(files[name]),
    main = names.find(name => !isConfig(name)) || names[0];
  if (!main) return;
  said(`Reading ${names.join(', ')} …`);
  const model = names.find(name => name !== main && isConfig(name)),
    others = Object.fromEntries(Object.entries(files).filter(([name]) => name !== main));
  const read = await engine.ask({ call: 'read', files, file: main, scenario: scenarioText(), name: state.base?.name || 'page.yaml',
    settings: settingsOf(),
    ...(model ? { model } : {}) });
  if (!read) return;
  if (read.error) return sayError(main, read.error);
  const detail = [...(read.notes || []), read.text || ''].filter(Boolean).join('\n');
  const evidence = (read.settings || []).some(setting => setting.startsWith('evidence'));
  const unknown = (read.unknown || []).map(u => `${u.name} (line ${u.line})`).join(', ');
  if (unknown) return said(`${main} needs values that it does not state: ${unknown}. Write them into the script, then drop it again.`,
    detail);
  const wrong = evidence ? await takeEvidence(main, files[main], engine)
    : read.kind === 'config' ? await faultOfConfig(main, files[main], engine) : null;
  if (wrong) return sayError(main, wrong);
  const own = evidence && read.scenario ? h('button',
    { type: 'button', onclick: () => takeScenario(`${main}.yaml`, read.scenario, others) }, 'Use the scenario of the log') : '';
  said(`${saidOf[read.kind] || `Read as ${evidence ? `${read.kind}, as evidence` : `a ${read.kind}`}:`} ${main}. `, detail,
    own);
  if (read.kind === 'result') takeResult(main, files[main]);
  else if (read.kind === 'config') takeConfig(main, files[main]);
  else if (read.kind === 'order') takeOrder(files[main]);
  else if (read.scenario && !evidence) takeScenario(read.kind === 'scenario' ? main : `${main}.yaml`, read.scenario, others);
}

// What `panpipe report --editable` laid into this file: its scenario, and the result that changes are compared with.
export function openInside() {
  const inside = byId('inside');
  if (!inside) return;
  const { name, scenario, files, result } = JSON.parse(inside.textContent);
  takeScenario(name.split('/').at(-1), scenario, files);
  takeResult(name, result);
  state.view = 'predict';
  changed('view');
  said(`A result of ${name}, predicted again here. Change its plan: figures are compared with the result.`);
}

export function listenToDrops(engine) {
  const veil = byId('drop'), input = byId('file');
  let depth = 0;
  const carries = event => [...(event.dataTransfer?.types || [])].includes('Files');
  window.addEventListener('dragenter', event => {
    if (!carries(event)) return;
    depth += 1;
    veil.hidden = false;
  });
  window.addEventListener('dragleave', event => {
    if (carries(event) && --depth <= 0) veil.hidden = true;
  });
  window.addEventListener('dragover', event => carries(event) && event.preventDefault());
  window.addEventListener('drop', event => {
    if (!carries(event)) return;
    event.preventDefault();
    depth = 0;
    veil.hidden = true;
    openFiles([...event.dataTransfer.files], engine);
  });
  byId('open-file').addEventListener('click', () => input.click());
  input.addEventListener('change', () => {
    openFiles([...input.files], engine);
    input.value = '';
  });
}
