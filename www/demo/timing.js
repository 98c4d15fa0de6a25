// The button that times steps here and on the CPU, and what it finds, for `connectSpeed`. A plain script, where they are to be.

/** @type {HTMLScriptElement} */ (document.currentScript).outerHTML = `
  <div class="row times">
    <button id="measure" type="button">Compare speed with the CPU</button>
    <p role="status">
      <span class="faint">This device:</span> <b id="device-speed">–</b>
      <span class="faint">The CPU, in WebAssembly:</span> <b id="cpu-speed">–</b>
    </p>
  </div>`;
