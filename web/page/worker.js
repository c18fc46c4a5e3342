// Runs in a worker: text in, text and the columns of a picture out. In the one-file page the engine's glue stands before this text.
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
  const columns = e._panpipe_bytes(), end = columns + e._panpipe_bytes_size();
  return { answer: new TextDecoder().decode(e.HEAPU8.subarray(result, e.HEAPU8.indexOf(0, result))),
    bytes: e.HEAPU8.slice(columns, end).buffer };
}

onmessage = async event => {
  if (event.data.module) return start(event.data.module);
  try {
    const made = await answer(event.data.request);
    postMessage(made, [made.bytes]);
  } catch (error) {
    postMessage({ failed: String(error?.message || error) });
  }
};
