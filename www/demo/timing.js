// The button that compares the speed with the CPU, for `connectSpeed`. A plain script, placed where the button should be.

/** @type {HTMLScriptElement} */ (document.currentScript).outerHTML = `
  <div class="row times">
    <button id="measure" type="button">Compare speed with the CPU</button>
    <p role="status">
      <span class="faint">This device:</span> <b id="device-speed">–</b>
      <span class="faint">The CPU, in WebAssembly:</span> <b id="cpu-speed">–</b>
    </p>
  </div>`;
