// The header of each page of the demo, and the line for notes below it. A plain script, placed first in the body, so that the
// header is there before anything is shown. The attribute `data-about` describes the page.

{
  const pages = {
    "ask.html": "Ask a model",
    "search.html": "Search by meaning",
    "teach.html": "Teach it",
    "./": "Filters and attention",
    "train.html": "Classify points",
    "digits.html": "Handwritten digits",
    "chars.html": "Language model training",
    "field.html": "Fit an image",
  };
  const here = location.pathname.split("/").pop() || "./";
  const current = (page) => (page === here || (page === "./" && here === "index.html") ? ' aria-current="page"' : "");
  const links = Object.entries(pages).map(([page, name]) => `<a href="${page}"${current(page)}>${name}</a>`);
  const script = /** @type {HTMLScriptElement} */ (document.currentScript);
  const about = script.dataset.about ?? "A neural network is trained in this page. No data leaves it.";
  script.outerHTML = `
    <header>
      <div class="brand">
        <img src="icon.svg" alt="" width="40" height="40" />
        <div>
          <h1>warpweft</h1>
          <p>${about}</p>
        </div>
      </div>
      <label class="device">
        <span>Device</span>
        <select id="device" disabled></select>
      </label>
      <nav aria-label="Demos">${links.join("\n")}</nav>
    </header>
    <p id="notice" class="notice" role="status" hidden></p>`;
}
