// The engine of the page answers what the programs answer: node documents_test.mjs ROOT PANPIPE ENGINE-FOLDER
// Documents are equal but for what names the machine, its folders, its clock and the versions of libraries.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const [root, panpipe, folder] = process.argv.slice(2);
process.chdir(root);
const { engineOfNode } = await import(join(folder, 'panpipe-node.mjs'));
// As an address, because node takes a .js file for a module only where a package.json says so.
const { prepare, microbatchOf } = await import('data:text/javascript,' + encodeURIComponent(readFileSync('web/page/timeline_data.js', 'utf8')));
const ask = await engineOfNode();

const native = (...words) => spawnSync(panpipe, words, { encoding: 'utf8', maxBuffer: 1 << 30, env: { ...process.env, NO_COLOR: '1' } });
const flags = settings => settings.flatMap(setting => ['--set', setting]);
const ordered = value => Array.isArray(value) ? value.map(ordered)
  : value && typeof value === 'object' ? Object.fromEntries(Object.keys(value).sort().map(key => [key, ordered(value[key])])) : value;
const facts = ({ context, ...rest }) => {
  const { libraries, host, date, wall_s, hashes, ...same } = context ?? {};
  return ordered({ ...rest, context: { ...same, hashes: Object.values(hashes ?? {}) } });
};
// Intervals are made by exp and log, of which C libraries differ in the last bit. All else is compared bit by bit.
function assertEqual(actual, expected, where, path = '') {
  if (typeof actual === 'number' && typeof expected === 'number' && /_p\d0_s$|evidence/.test(path))
    return assert.ok(Math.abs(actual - expected) <= 1e-12 * Math.abs(expected), `${where}: ${path}: ${actual}, not ${expected}`);
  if (typeof actual !== 'object' || actual === null || typeof expected !== 'object' || expected === null)
    return assert.ok(actual === expected, `${where}: ${path}: ${actual}, not ${expected}`);
  assert.deepEqual(Object.keys(actual), Object.keys(expected), `${where}: ${path}`);
  for (const key of Object.keys(actual)) assertEqual(actual[key], expected[key], where, `${path}.${key}`);
}

const counts = { equal: 0, refused: 0 };

// `words` of the command line and the request that mean the same.
function same(request, words) {
  const answer = ask(request), expected = native(...words), where = words.join(' ');
  if (answer.error) {
    assert.equal(answer.error.exit, expected.status, `${where}: ${answer.error.text} | ${expected.stderr}`);
    assert.equal(answer.error.text + '\n', expected.stderr, where);
    ++counts.refused;
    return answer;
  }
  assert.equal(expected.status, answer.exit ?? 0, `${where}: ${expected.stderr}`);
  assertEqual(facts(answer.document), facts(JSON.parse(expected.stdout)), where);
  ++counts.equal;
  return answer;
}

const backend = engine => (engine === 'simulate' ? ['--backend', 'flow'] : []);
const step = (name, engine, settings = []) => same({ call: 'predict', name, engine, settings, want: ['document'] },
  [engine, name, ...backend(engine), '--json', ...flags(settings)]);

const examples = readdirSync('scenarios/examples').filter(file => file.endsWith('.yaml')).map(file => 'scenarios/examples/' + file);
for (const file of examples) for (const engine of ['estimate', 'simulate']) step(file, engine);

const base = 'scenarios/examples/gpt3-175b-a100x64.yaml';
for (const schedule of ['1f1b', 'gpipe', 'zb-h1', 'zb-v', 'dualpipe-v', 'hanayo', 'zb-auto', 'v-half', 'stp', 'kfkb'])
  for (const model of ['gpt3-13b', 'llama2-70b'])
    for (const recompute of ['none', 'selective', 'full'])
      step(base, 'estimate', [`schedule=${schedule}`, `workload.model=${model}`, `recompute=${recompute}`,
        'parallel={pipeline: 8, tensor: 8}', 'batch.microbatches=16']);

// Wrong input: the same words, the same exit code.
for (const setting of ['parallel.pipelin=8', 'batch.micro=four', 'batch.micro=0', 'schedule=1f2b', 'parallel.tensor=7',
  'cluster=no-such', 'precision=[', 'gradient_bucket=3 GB/s'])
  step(base, 'estimate', [setting]);
step('no/such/file.yaml', 'estimate');

const temporary = mkdtempSync(join(tmpdir(), 'panpipe-web-'));
const written = (name, text) => {
  const file = join(temporary, name);
  writeFileSync(file, text);
  return file;
};
try {
  const searches = [
    ['rtx3090x8', '{model: gpt2-large}', '{micro: 1, global: 64}'],
    ['{file: clusters/dgx-a100-80g.yaml, nodes: 4}', '{model: gpt3-13b}', '{micro: 1, global: 128}'],
    ['{file: clusters/dgx-a100-80g.yaml, nodes: 8}', '{model: gpt3-175b}', '{micro: 1, global: 64}'],
    ['a100-80g-pcie-x4-nobridge', '{model: llama2-7b, sequence: 2048}', '{micro: 1, global: 32}'],
    ['{file: clusters/h100x8.yaml, nodes: 2}', '{config: workloads/mixtral-8x7b.json, sequence: 4096}', '{micro: 1, global: 64}'],
  ];
  searches.forEach(([cluster, workload, batch], i) => {
    const file = written(`plan${i}.yaml`, `panpipe: 1\ncluster: ${cluster}\nworkload: ${workload}\nbatch: ${batch}\n`
      + 'precision: bf16\nframework: megatron-core\n');
    same({ call: 'plan', name: file, settings: [] }, ['plan', file, '--threads', '1', '--json']);
  });
  written('syntax.yaml', 'panpipe: 1\ncluster: [\n');
  step(join(temporary, 'syntax.yaml'), 'estimate');

  // The picture is the program's, byte by byte.
  native('estimate', examples[0], '-o', join(temporary, 'out'));
  const drawn = ask({ call: 'predict', name: examples[0], want: ['svg', 'plan', 'picture'] });
  assert.equal(drawn.svg, readFileSync(join(temporary, 'out/schedule.svg'), 'utf8'));
  assert.equal(drawn.plan, readFileSync(join(temporary, 'out/plan.yaml'), 'utf8'));
  const lanes = prepare(drawn.picture).lanes, spans = JSON.parse(readFileSync(join(temporary, 'out/result.json'), 'utf8')).timeline;
  assert.equal(lanes.reduce((sum, lane) => sum + lane.boxes.count, 0), spans.filter(span => span.lane === 'compute').length);
  assert.ok(drawn.picture.lanes.length > 1 && drawn.picture.lanes.every(lane => lane.boxes > 0));

  // Orders: a legal one, one that blocks.
  for (const family of ['zb-v', '1f1b'])
    same({ call: 'schedule', family, ranks: 4, microbatches: 8, costs: { F: 2, I: 3, W: 1 } },
      ['schedule', family, '--ranks', '4', '--microbatches', '8', '--costs', 'F=2,I=3,W=1', '--json']);
  const blocks = '0F0,0B0,0F1,0B1\n1B0,1F0,1F1,1B1\n', csv = written('blocks.csv', blocks);
  const blocked = ask({ call: 'schedule', csv: blocks, name: 'blocks' }), known = native('schedule', csv, '--json');
  assert.equal(known.status, 1);
  assert.equal(blocked.legal, false);
  assert.deepEqual(blocked.problems.map(p => p.message), JSON.parse(known.stdout).problems.map(p => p.message));
  same({ call: 'arena', family: 'zb-v', ranks: 4, microbatches: 8 },
    ['arena', 'zb-v', '--ranks', '4', '--microbatches', '8', '--clusters', 'none', '--json']);

  // What a scenario may name.
  const lists = ask({ call: 'lists' }).lists, models = JSON.parse(native('list', 'models', '--json').stdout);
  assert.deepEqual(lists.models, models.items);

  // A launch script.
  const script = written('train.sh', '#!/bin/bash\nTP=4\ntorchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py '
    + '--tensor-model-parallel-size $TP '
    + '--pipeline-model-parallel-size 2 --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 '
    + '--max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64 --vocab-size 50257 --bf16\n');
  const read = ask({ call: 'read', file: script, trainer: 'megatron' }), imported = native('import', 'megatron', script);
  assert.equal(read.scenario, imported.stdout, imported.stderr);
  assert.equal(ask({ call: 'read', file: script }).kind, 'launch script');
  const jobs = { 'megatron-llama-3-70b.sh': 'megatron', 'nanotron-llama-8b.yaml': 'nanotron', 'torchtitan-llama3-8b.toml': 'torchtitan' };
  for (const [file, trainer] of Object.entries(jobs)) {
    const job = 'scenarios/examples/jobs/' + file;
    assert.equal(ask({ call: 'read', file: job }).scenario, native('import', trainer, job).stdout, file);
  }
  assert.match(ask({ call: 'read', file: 'scenarios/examples/jobs/deepspeed-zero3.json' }).error.message, /DeepSpeed holds no model/);

  // A scenario that names a file.
  const own = { call: 'predict', name: base, settings: [`workload={config: ${join(temporary, 'config.json')}, sequence: 4096}`] };
  const config = readFileSync('scenarios/workloads/llama-3-8b.json', 'utf8');
  assert.ok(ask(own).error);
  written('config.json', config);
  same({ ...own, want: ['document'] }, ['estimate', base, '--json', ...flags(own.settings)]);
} finally {
  rmSync(temporary, { recursive: true });
}

// Of 8 ranks with 4,096 microbatches, which are 65,536 passes and their messages, the whole is merged and a part is not.
const long = ask({ call: 'predict', name: 'scenarios/examples/gpt2-large-rtx3090x8.yaml', want: ['picture'],
  settings: ['parallel={pipeline: 8}', 'batch={micro: 1, microbatches: 4096}', 'schedule=1f1b', 'recompute=full'] });
assert.equal(long.error, undefined, long.error?.text);
assert.equal(long.picture.merged, true);
assert.ok(long.picture.lanes[0].boxes < 4096, 'merged boxes');
const { boxes } = prepare(ask({ call: 'view', from: 0, to: long.picture.end / 100, pixels: 1e6 }).picture).lanes[0];
const forwards = Array.from(boxes.microbatch).filter((_, i) => boxes.kind[i] === 0);
assert.ok(forwards.length > 20, `${forwards.length} forwards`);
assert.deepEqual(forwards, forwards.map((_, i) => i));
assert.ok(boxes.starts.every((start, i) => start <= long.picture.end / 100 && microbatchOf(boxes, i) !== ''));

// Text in place of a file, and the place of a fault in it.
const text = readFileSync(base, 'utf8');
const given = ask({ call: 'predict', scenario: text.replace('clusters/', 'clusters/'), name: 'page.yaml' });
assert.equal(given.document.metrics.step_time_s, ask({ call: 'predict', name: base }).document.metrics.step_time_s);
const fault = ask({ call: 'predict', scenario: text + 'pipelines: 8\n', name: 'page.yaml' }).error;
assert.equal(fault.code, 'unknown-key');
assert.match(fault.place, /^page\.yaml:\d+:1$/);

// Whatever is asked, the next call is answered, and the heap does not grow with calls.
const wrong = [{}, [], 'x', { call: 'no' }, { call: 'predict', settings: 3 }, { call: 'predict', scenario: 'a: 1', name: '../x' },
  { call: 'schedule', family: 3 }];
for (const request of wrong)
  assert.ok(ask(request).error, JSON.stringify(request));
const grown = () => ask.heap();
for (let i = 0; i < 20; ++i) ask({ call: 'predict', name: base });
const before = grown();
for (let i = 0; i < 100; ++i) ask({ call: 'predict', name: base });
assert.equal(grown(), before);

console.log(`${counts.equal} documents equal, ${counts.refused} refusals equal`);
assert.ok(counts.equal >= 70, 'too few documents were compared');
