// Pages that are opened as files may start no worker, and the search of the site wants one. There a frame stands in for the worker.
if (location.protocol === "file:") {
  window.IFrameWorker = true; // the worker asks for its parent's word of that name
  window.Worker = class extends EventTarget {
    constructor(name) {
      super();
      const url = new URL(name, location);
      const waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.postMessage = (data) => waiting.push(data);
      this.terminate = () => frame.remove();
      frame.addEventListener("load", () => {
        if (frame.contentDocument.readyState !== "complete" || this.window) return;
        const inner = this.window = frame.contentWindow;
        // The worker's own answers, and its scripts, which it fetches and awaits.
        inner.postMessage = (data) => void this.dispatchEvent(new MessageEvent("message", { data }));
        inner.importScripts = (...urls) => Promise.all(urls.map((each) => run(each)));
        const run = (each) => new Promise((done, failed) => {
          const script = inner.document.createElement("script");
          script.src = new URL(each, url);
          script.onload = done;
          script.onerror = failed;
          inner.document.body.append(script);
        });
        const give = (data) => inner.dispatchEvent(new inner.MessageEvent("message", { data }));
        run(url).then(() => { this.postMessage = give; waiting.forEach(give); });
      });
      document.body.append(frame);
    }
    set onmessage(listener) { this.addEventListener("message", listener); }
  };
}
