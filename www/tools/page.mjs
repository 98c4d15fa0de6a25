// Web pages of this repository in a browser: a small server, and a headless Chromium.

import { createReadStream, existsSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, sep } from "node:path";
import { brotliCompressSync } from "node:zlib";
import { chromium as playwright } from "playwright-core";
import { chromium, chromiumArgs, root } from "./env.mjs";
import { getModels, isModel, modelFolder } from "./models.mjs";
import { havePip } from "./wheels.mjs";

const types = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".json": "application/json",
  ".map": "application/json",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".wasm": "application/wasm",
};

/** Folders outside of www/ that pages can fetch from, by the first part of the URL's path. */
const beside = { data: join(root, "native", "data"), models: modelFolder };

/**
 * Serves www/, and native/data as /data/, on a free port of the loopback interface. Returns the URL, and a function that stops
 * the server. With `deployed`, files are compressed and cached by browsers, like the files of a static site.
 */
export async function serve({ deployed = false } = {}) {
  const packed = new Map();
  const compressed = (file) => {
    if (!packed.has(file)) packed.set(file, brotliCompressSync(readFileSync(file)));
    return packed.get(file);
  };
  const www = join(root, "www");
  const server = createServer((request, response) => {
    const model = /^\/models\/([\w./-]+)$/.exec(request.url)?.[1];
    if (model && isModel(model)) return sendModel(model, request, response);
    const file = fileFor(www, request.url);
    if (!file || !["GET", "HEAD"].includes(request.method)) {
      response.writeHead(404).end("not found");
      return;
    }
    const headers = { "Content-Type": types[extname(file)] ?? "application/octet-stream" };
    if (deployed) Object.assign(headers, { "Cache-Control": "max-age=3600, immutable", "Content-Encoding": "br" });
    // Pages must always get the newest build.
    else headers["Cache-Control"] = "no-cache";
    const body = deployed ? compressed(file) : readFileSync(file);
    response.writeHead(200, { ...headers, "Content-Length": body.length });
    response.end(request.method === "HEAD" ? undefined : body);
  });
  await new Promise((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
  return { url: `http://localhost:${server.address().port}`, close: () => server.close() };
}

/** Sends a model file, or the requested range. A missing model is fetched first, if pip is installed. */
async function sendModel(name, { headers }, response) {
  const path = join(modelFolder, name);
  try {
    if (!existsSync(path) && havePip()) await getModels(console.log, name);
  } catch (error) {
    console.error(error.message);
  }
  if (!existsSync(path)) return response.writeHead(424, "pip must be installed to fetch the model").end();
  const { size, mtimeMs } = statSync(path);
  const [, start, end] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? "") ?? [];
  const range = start === undefined ? {} : { start: Number(start), end: Math.min(Number(end), size - 1) };
  const of = start === undefined ? {} : { "Content-Range": `bytes ${range.start}-${range.end}/${size}` };
  const length = start === undefined ? size : range.end - range.start + 1;
  // The version allows a page to continue an interrupted download.
  const version = { ETag: `"${size}-${Math.round(mtimeMs)}"` };
  response.writeHead(start === undefined ? 200 : 206, { "Content-Length": length, ...of, ...version });
  createReadStream(path, range).pipe(response);
}

/** Returns the file for a URL. Undefined if it does not exist or is outside of the folder. */
function fileFor(www, url) {
  let path;
  try {
    path = decodeURIComponent(new URL(url, "http://localhost").pathname);
  } catch {
    return undefined;
  }
  const [, first, ...rest] = path.split("/");
  const [folder, inside] = Object.hasOwn(beside, first) ? [beside[first], rest.join("/")] : [www, path];
  const file = join(folder, inside.endsWith("/") ? `${inside}index.html` : inside);
  const there = file.startsWith(folder + sep) && !path.includes("\0");
  return there && statSync(file, { throwIfNoEntry: false })?.isFile() ? file : undefined;
}

/** Starts a headless Chromium with WebGPU. */
export function launch(args = []) {
  return playwright.launch({ executablePath: chromium(), args: [...chromiumArgs(), ...args] });
}

/** Starts a headless Chromium with a profile folder, which keeps its caches. Returns the profile's browser context. */
export function launchProfile(folder) {
  return playwright.launchPersistentContext(folder, { executablePath: chromium(), args: chromiumArgs() });
}

/**
 * Opens the demo, or another of its pages, in a browser's page and waits for its first results. The device is the default one,
 * but a software GPU instead of the CPU. Returns the reason if that was necessary.
 */
export async function openDemo(page, url, name = "") {
  await goto(page, `${url}/demo/${name}`);
  const { backend, fallback } = await page.evaluate(() => window.demo.device);
  if (backend === "cpu") await goto(page, `${url}/demo/${name}?device=software`);
  return fallback;
}

async function goto(page, url) {
  await page.goto(url);
  const notice = page.locator("#notice.error");
  const failed = notice.waitFor({ timeout: 0 }).then(async () => {
    throw new Error(`the page shows an error: ${await notice.textContent()}`);
  });
  failed.catch(() => {}); // It is still waiting when the page is closed, and then rejects.
  const ready = page.waitForFunction(() => window.demo, undefined, { timeout: 120_000 });
  await Promise.race([ready.then(() => page.evaluate(() => window.demo.ready)), failed]);
}
