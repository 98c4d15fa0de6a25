// The buttons for weights files, for `connectFiles`. A plain script, placed where the buttons should be.

/** @type {HTMLScriptElement} */ (document.currentScript).outerHTML = `
  <div class="row files" role="group" aria-label="Weights">
    <button id="trained" type="button">Load trained weights</button>
    <button id="save" type="button">Save weights</button>
    <label class="button">
      <span>Open a weights file</span>
      <input id="file" class="hidden" type="file" accept=".safetensors" />
    </label>
  </div>`;
