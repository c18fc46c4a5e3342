// The engine in workers. One predicts, one searches: a search is stopped by ending its worker, and the next one starts from the
// compiled module that is kept here.
import { byId } from './dom.js';

let compiled;     // Promise of the WebAssembly.Module
let workerAddress;

async function inlineModule(element) {
  const packed = Uint8Array.from(atob(element.textContent.trim()), c => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return WebAssembly.compile(await new Response(stream).arrayBuffer());
}

async function fetchedModule() {
  const answer = await fetch('panpipe.wasm');
  if (!answer.ok) throw new Error(`panpipe.wasm: ${answer.status} ${answer.statusText}`);
  return WebAssembly.compile(await answer.arrayBuffer());
}

export function loadEngine() {
  const inline = byId('engine-wasm');
  if (inline) {
    const text = byId('engine-glue').textContent + '\n' + byId('engine-worker').textContent;
    workerAddress = URL.createObjectURL(new Blob([text], { type: 'text/javascript' }));
    compiled = inlineModule(inline).then(module => { inline.remove(); return module; });
  } else {
    workerAddress = 'worker.js';
    compiled = fetchedModule();
  }
  return compiled;
}

// Calls are answered in turn. A call with a channel replaces a waiting one of the same channel, whose promise ends with null:
// only the newest change of a slider is computed.
export class Caller {
  constructor() {
    this.waiting = [];
    this.running = null;
    this.worker = null;
  }

  async start() {
    const module = await compiled;
    this.worker = new Worker(workerAddress);
    this.worker.onmessage = event => this.receive(event.data);
    this.worker.onerror = event => this.fail(event.message || 'the engine did not start');
    this.worker.postMessage({ module });
  }

  ask(request, { channel, progress } = {}) {
    return new Promise(done => {
      if (channel) {
        for (const old of this.waiting.filter(w => w.channel === channel)) old.done(null);
        this.waiting = this.waiting.filter(w => w.channel !== channel);
      }
      this.waiting.push({ request, channel, progress, done });
      this.next();
    });
  }

  async next() {
    if (this.running || !this.waiting.length) return;
    this.running = this.waiting.shift();
    const mine = this.running;
    try {
      if (!this.worker) await this.start();
    } catch (error) {
      return this.fail(error.message);
    }
    if (this.running === mine) this.worker.postMessage({ request: JSON.stringify(this.running.request) });
  }

  receive(message) {
    if (!this.running) return;
    if (message.progress !== undefined) {
      this.running.progress?.(JSON.parse(message.progress));
      return;
    }
    const { done } = this.running;
    this.running = null;
    if (message.failed) {  // the engine's memory may be broken after a trap: start anew
      this.drop();
      done({ error: { message: message.failed, help: 'this is a fault of the engine; reload the page if it stays', diagnostics: [] } });
    } else {
      const answer = JSON.parse(message.answer);
      if (answer.picture) answer.picture.bytes = message.bytes;  // the columns of its lanes
      done(answer);
    }
    this.next();
  }

  fail(text) {
    const running = this.running;
    this.running = null;
    this.drop();
    running?.done({ error: { message: text, help: '', diagnostics: [] } });
  }

  drop() {
    this.worker?.terminate();
    this.worker = null;
  }

  // The running call ends with null.
  stop() {
    const all = [this.running, ...this.waiting].filter(Boolean);
    this.running = null;
    this.waiting = [];
    this.drop();
    for (const call of all) call.done(null);
  }
}
