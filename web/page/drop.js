// Files that a person drops or opens: each is read as what it is. Nothing is sent anywhere.
import { h, byId } from './dom.js';
import { state, put, changed } from './state.js';

const largest = 300e6;  // of a text that the engine gets

async function textOf(file) {
  if (file.size > largest) throw new Error(`${file.name} has ${(file.size / 1e6).toFixed(0)} MB; this page reads up to ${largest / 1e6}`);
  const stream = /\.gz$/.test(file.name) ? file.stream().pipeThrough(new DecompressionStream('gzip')) : file.stream();
  return new Response(stream).text();
}

const said = (text, detail = '') => byId('status').replaceChildren(text, detail ? h('details', {}, h('summary', {}, 'What was read'), h('pre', {}, detail)) : '');

function takeConfig(name, text) {
  state.base = null;
  state.files = { [name]: text };
  put({ 'workload.config': name, 'workload.model': null, 'workload.sequence': state.set['workload.sequence'] || '4096' });
  said(`The model is now ${name}.`);
}

function takeScenario(name, text, files) {
  Object.assign(state, { view: 'predict', base: { name, text }, set: {}, files: files || {} });
  changed('all');
  said(`The scenario is now ${name}.`);
}

function takeOrder(name, text) {
  state.view = 'laboratory';
  state.lab.csv = text.trim();
  changed('all');
  said(`${name} is an order of passes: it is in the laboratory.`);
}

// Files may belong together (a launch script and its config.json), so they are read in one call.
export async function openFiles(list, engine) {
  const files = {};
  try {
    for (const file of list) files[file.name.replace(/\.gz$/, '')] = await textOf(file);
  } catch (error) {
    return said(error.message);
  }
  const names = Object.keys(files);
  if (!names.length) return;
  said(`Reading ${names.join(', ')} …`);
  const answer = await engine.ask({ call: 'read', files, arguments: {} });
  const read = answer || {}, first = names[0], kind = read.kind;
  if (read.error) return said(`${first}: ${read.error.message}${read.error.help ? ' (' + read.error.help + ')' : ''}`);
  if (kind === 'config') takeConfig(first, files[first]);
  else if (kind === 'order') takeOrder(first, files[first]);
  else if (kind === 'scenario') takeScenario(first, files[first], Object.fromEntries(Object.entries(files).filter(([name]) => name !== first)));
  else if (read.scenario) takeScenario(`${first}.yaml`, read.scenario, read.files);
  if (read.evidence) put({ evidence: read.evidence });
  if (kind === 'unknown' || (!read.scenario && !['config', 'order', 'scenario'].includes(kind)))
    said(read.text ? `${first} is a ${kind}.` : `${first} is not a file that this page reads: a config.json, a scenario, a launch script, a log, nccl-tests, an order as CSV.`,
      read.text);
  else if (kind !== 'config' && kind !== 'order' && kind !== 'scenario')
    said(`${first} was read as a ${kind}.`, [...(read.notes || []), read.text || ''].filter(Boolean).join('\n'));
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
