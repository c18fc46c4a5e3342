// The engine of the page in node, for tests: node panpipe-node.mjs estimate|simulate|plan FILE [--set KEY=VALUE]... [--json]
// prints what `panpipe` prints, and ends with its exit code.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const folder = dirname(fileURLToPath(import.meta.url));
const require = createRequire(import.meta.url);

// The function that answers a request; files are those of this machine.
export async function engineOfNode() {
  const engine = await require(join(folder, 'panpipe.js'))({ wasmBinary: readFileSync(join(folder, 'panpipe.wasm')) });
  const mounted = new Set();
  // The first folder of a path, at the same place.
  const mount = path => {
    const top = '/' + resolve(path).split('/')[1];
    if (mounted.has(top)) return;
    mounted.add(top);
    if (!engine.FS.analyzePath(top).exists) engine.FS.mkdir(top);
    engine.FS.mount(engine.FS.filesystems.NODEFS, { root: top }, top);
  };
  mount(process.cwd());
  engine.FS.chdir(process.cwd());
  const ask = engine.cwrap('panpipe_answer', 'string', ['string']);
  const answer = request => {
    for (const path of [request.name, request.file]) mount(path ?? '.');
    const made = JSON.parse(ask(JSON.stringify(request))), at = engine._panpipe_bytes();
    if (made.picture) made.picture.bytes = engine.HEAPU8.slice(at, at + engine._panpipe_bytes_size()).buffer;
    return made;
  };
  answer.heap = () => engine.HEAPU8.length;
  return answer;
}

function requestOf(words) {
  const [verb, name] = words, call = verb === 'plan' ? 'plan' : 'predict';
  const request = { call, engine: verb, name, settings: [], want: ['document', 'text'] };
  let json = false;
  for (let i = 2; i < words.length; ++i) {
    if (words[i] === '--json') json = true;
    else if (words[i] === '--open') request.open = true;
    else if (words[i] === '--set' && i + 1 < words.length) request.settings.push(words[++i]);
    else throw new Error(`panpipe-node: '${words[i]}' is not known`);
  }
  if (!['estimate', 'simulate', 'plan'].includes(verb) || !name) throw new Error('panpipe-node: estimate, simulate or plan, and a file');
  return { request, json };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { request, json } = requestOf(process.argv.slice(2));
  const answer = (await engineOfNode())(request);
  if (answer.error) process.stderr.write(answer.error.text + '\n');
  else process.stdout.write(json ? JSON.stringify(answer.document, null, 2) + '\n' : answer.text);
  process.exitCode = answer.error ? answer.error.exit : answer.exit ?? 0;
}
