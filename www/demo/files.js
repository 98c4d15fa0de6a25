// The buttons of a net's files, for `connectFiles`. A plain script, where they are to be.

/** @type {HTMLScriptElement} */ (document.currentScript).outerHTML = `
  <div class="row files" role="group" aria-label="The weights">
    <button id="trained" type="button">Take trained weights</button>
    <button id="save" type="button">Save the weights</button>
    <label class="button">
      <span>Load weights</span>
      <input id="file" class="hidden" type="file" accept=".safetensors" />
    </label>
  </div>`;
