// The buttons of a training, for `Loop`. A plain script, placed where the buttons should be. The attribute `data-speed` is the
// initial number of steps per second. The default is the maximum speed.

{
  const speeds = { 1: "1 step per second", 10: "10 steps per second", 60: "60 steps per second", 1000000: "Maximum speed" };
  const script = /** @type {HTMLScriptElement} */ (document.currentScript);
  const first = script.dataset.speed ?? "1000000";
  const options = Object.entries(speeds).map(
    ([speed, name]) => `<option value="${speed}"${speed === first ? " selected" : ""}>${name}</option>`,
  );
  script.outerHTML = `
    <div class="row training" role="group" aria-label="Training">
      <button id="start" type="button" aria-pressed="false">Start</button>
      <button id="once" type="button">Step</button>
      <button id="reset" type="button">Reset</button>
      <label class="choice">
        <span class="hidden">Steps per second</span>
        <select id="speed">${options.join("")}</select>
      </label>
    </div>`;
}
