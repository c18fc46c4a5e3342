// What the person has chosen. All of it is in the address, so a link is a prediction.
//   set     scenario keys and their values, as the person wrote them; the whole scenario, or what replaces keys of `base`
//   base    a scenario that was dropped or is an example: {name, text}
//   files   files that the scenario names: a config.json
//   before  the state that is compared with, as text of an address; null = none
//   result  a result that was dropped, {document, text}, which is compared with instead; not in the address
//   lab     the schedule laboratory's own values
export const state = { view: 'predict', set: {}, base: null, files: {}, before: null, engine: 'estimate', result: null, lab: {} };

// A first answer that shows all: a pipeline, tensor and data parallelism, memory, the cost of a run.
export const first = {
  'cluster.file': 'clusters/h100x8.yaml', 'cluster.nodes': '2', 'workload.config': 'workloads/llama-3-8b.json', 'workload.sequence': '8192',
  'batch.micro': '1', 'batch.global': '128', precision: 'bf16', 'parallel.pipeline': '4', 'parallel.tensor': '2', 'parallel.data': '2',
  'parallel.zero': '1', 'parallel.sequence_parallel': 'true', schedule: '1f1b', recompute: 'none', trainer: 'megatron-core',
  'run.tokens': '1T', 'run.price': 'nebius',
};

const listeners = [];
export const listen = f => listeners.push(f);
export function changed(what = 'scenario') {
  for (const f of listeners) f(what);
}

// What one key decides for others: samples of a step are stated in one way, and cuts belong to their degrees and schedule.
function followed(values) {
  const more = {};
  if ('batch.global' in values) more['batch.microbatches'] = null;
  if ('workload.lora.rank' in values) more['workload.lora.targets'] = values['workload.lora.rank'] ? state.set['workload.lora.targets']
    || 'all-linear' : null;
  const cut = ['workload.config', 'workload.model', 'parallel.pipeline', 'parallel.virtual_stages', 'schedule'];
  if (cut.some(key => key in values && String(values[key]) !== state.set[key])) more.partition = null;
  return { ...more, ...values };
}

export function put(given) {
  const values = followed(given);
  for (const [key, value] of Object.entries(values))
    if (value === null || value === '') delete state.set[key];
    else state.set[key] = String(value);
  changed();
}

// ---- the scenario's text

const plain = value => (/^[[{"']/.test(value) || !/[,{}[\]#]|: |^[&*!|>%@`-]/.test(value) ? value : JSON.stringify(value));

function nested(set) {
  const tree = {};
  for (const [key, value] of Object.entries(set)) {
    const parts = key.split('.');
    let at = tree;
    for (const part of parts.slice(0, -1)) {
      if (typeof at[part] === 'string') at[part] = { [part === 'cluster' ? 'file' : 'name']: at[part] };
      at = at[part] ??= {};
    }
    const last = parts.at(-1);
    if (typeof at[last] === 'object') at[last] = { name: value, ...at[last] };
    else at[last] = value;
  }
  return tree;
}

const flow = value => (typeof value === 'string' ? plain(value)
  : `{${Object.entries(value).map(([k, v]) => `${k}: ${flow(v)}`).join(', ')}}`);

export function scenarioText(from = state) {
  if (from.base) return from.base.text;
  return 'panpipe: 1\n' + Object.entries(nested(from.set)).map(([key, value]) => `${key}: ${flow(value)}\n`).join('');
}

export function settingsOf(from = state) {
  if (!from.base) return [];
  const tree = nested(from.set), whole = ['schedule', 'trainer', 'framework', 'optimizer', 'recompute'];
  const flat = (at, path) => Object.entries(at).flatMap(([key, value]) =>
    typeof value === 'string' || whole.includes(path + key) ? [`${path}${key}=${flow(value)}`] : flat(value, `${path}${key}.`));
  return flat(tree, '');
}

export const requestOf = (from, want) => ({
  call: 'predict', scenario: scenarioText(from), name: from.base?.name || 'page.yaml', settings: settingsOf(from), files: from.files,
  engine: from.engine, want,
});

// ---- the address

const encode = text => encodeURIComponent(text).replace(/%2F/g, '/').replace(/%3A/g, ':').replace(/%2C/g, ',').replace(/%20/g, '+');
const decode = text => decodeURIComponent(text.replace(/\+/g, ' '));

async function squeezed(text, stream) {
  const packed = new Uint8Array(await new Response(new Blob([text]).stream().pipeThrough(stream)).arrayBuffer());
  let binary = '';
  for (const byte of packed) binary += String.fromCharCode(byte);
  return btoa(binary).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
}

const pack = text => squeezed(text, new CompressionStream('deflate-raw'));
async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed.replace(/-/g, '+').replace(/_/g, '/')), c => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'))).text();
}

// A file that is longer, packed, is left out of an address, with the key that names it.
const mostOfFile = 60000;

export async function addressOf(from = state) {
  const pairs = [];
  if (from.view !== 'predict') pairs.push(['view', from.view]);
  if (from.engine !== 'estimate') pairs.push(['engine', from.engine]);
  if (from.base) {
    if (from.base.example) pairs.push(['example', from.base.name]);
    else pairs.push(['name', from.base.name], ['base', await pack(from.base.text)]);
  }
  const left = [];
  for (const [name, text] of Object.entries(from.files)) {
    const packed = await pack(text);
    if (packed.length <= mostOfFile) pairs.push(['file:' + name, packed]);
    else left.push(name);
  }
  for (const [key, value] of Object.entries(from.set)) if (!left.some(name => value.includes(name))) pairs.push([key, value]);
  for (const [key, value] of Object.entries(from.lab || {})) pairs.push(['lab.' + key, value]);
  if (from.before) pairs.push(['before', from.before]);
  return pairs.map(([key, value]) => `${encode(key)}=${encode(value)}`).join('&');
}

// `examples`: the engine's, [{name, text}]. A damaged part of an address is left out, with a line in `problems`.
export async function stateOf(address, examples = [], problems = []) {
  const read = { view: 'predict', set: {}, base: null, files: {}, before: null, engine: 'estimate', lab: {} };
  for (const part of address.replace(/^#/, '').split('&').filter(Boolean)) {
    try {
      const cut = part.indexOf('='), key = decode(part.slice(0, cut)), value = decode(part.slice(cut + 1));
      if (cut < 0) throw new Error('no value');
      if (key === 'view' || key === 'engine' || key === 'before') read[key] = value;
      else if (key === 'name') read.name = value;
      else if (key === 'base') read.base = { name: read.name || 'page.yaml', text: await unpack(value) };
      else if (key === 'example') read.base = exampleNamed(value, examples);
      else if (key.startsWith('file:')) read.files[key.slice(5)] = await unpack(value);
      else if (key.startsWith('lab.')) read.lab[key.slice(4)] = value;
      else read.set[key] = value;
    } catch (error) {
      problems.push(`the address has a part that cannot be read (${part.slice(0, 40)}): ${error.message}`);
    }
  }
  delete read.name;
  if (!read.base && !Object.keys(read.set).length) read.set = { ...first };
  return read;
}

const bare = name => name.split('/').at(-1).replace(/\.yaml$/, '');

function exampleNamed(name, examples) {
  const found = examples.find(example => bare(example.name) === bare(name));
  if (!found) throw new Error(`no example of the name ${name}`);
  return { name: bare(found.name) + '.yaml', text: found.text, example: true };
}

export function replace(read) {
  Object.assign(state, read);
  changed('all');
}
