// Runs in a worker: text in, text out. In the one-file page the engine's glue stands before this text.
let engine;

function start(module) {
  if (typeof Panpipe === 'undefined') importScripts('panpipe.js');
  engine = Panpipe({
    locateFile: name => name,
    onProgress: text => postMessage({ progress: text }),
    instantiateWasm(imports, done) {
      WebAssembly.instantiate(module, imports).then(instance => done(instance, module));
      return {};
    },
  });
}

async function answer(text) {
  const e = await engine;
  const bytes = new TextEncoder().encode(text), at = e._malloc(bytes.length + 1);
  e.HEAPU8.set(bytes, at);
  e.HEAPU8[at + bytes.length] = 0;
  const result = e._panpipe_answer(at);
  e._free(at);
  return new TextDecoder().decode(e.HEAPU8.subarray(result, e.HEAPU8.indexOf(0, result)));
}

onmessage = async event => {
  if (event.data.module) return start(event.data.module);
  try {
    postMessage({ answer: await answer(event.data.request) });
  } catch (error) {
    postMessage({ failed: String(error?.message || error) });
  }
};
