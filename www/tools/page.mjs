// Web pages of this repository in a browser: a small server for them, and a headless Chromium to look at them.

import { createReadStream, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, sep } from "node:path";
import { chromium as playwright } from "playwright-core";
import { chromium, chromiumArgs, root } from "./env.mjs";

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

/** Serves www/ to this machine alone, at a port that is free; gives the address, and a function that ends it. */
export async function serve() {
  const www = join(root, "www");
  const server = createServer((request, response) => {
    const file = fileFor(www, request.url);
    if (!file || !["GET", "HEAD"].includes(request.method)) {
      response.writeHead(404).end("not found");
      return;
    }
    // What was built a moment ago must not be what was built an hour ago.
    const headers = { "Content-Type": types[extname(file)] ?? "application/octet-stream", "Cache-Control": "no-cache" };
    response.writeHead(200, headers);
    if (request.method === "HEAD") response.end();
    else createReadStream(file).pipe(response);
  });
  await new Promise((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
  return { url: `http://localhost:${server.address().port}`, close: () => server.close() };
}

/** The file that an address names; undefined where there is none, or it lies elsewhere. */
function fileFor(www, url) {
  let path;
  try {
    path = decodeURIComponent(new URL(url, "http://localhost").pathname);
  } catch {
    return undefined;
  }
  const file = join(www, path.endsWith("/") ? `${path}index.html` : path);
  const there = file.startsWith(www + sep) && !path.includes("\0");
  return there && statSync(file, { throwIfNoEntry: false })?.isFile() ? file : undefined;
}

/** Starts a headless Chromium with WebGPU. */
export function launch(args = []) {
  return playwright.launch({ executablePath: chromium(), args: [...chromiumArgs(), ...args] });
}

/**
 * Opens the demo in a browser's page and waits for its first results: on the device taken unasked, and where that is
 * the CPU, on WebGPU computed by a CPU. Gives why, if it is so.
 */
export async function openDemo(page, url) {
  await goto(page, `${url}/demo/`);
  const { backend, fallback } = await page.evaluate(() => window.demo.device);
  if (backend === "cpu") await goto(page, `${url}/demo/?device=software`);
  return fallback;
}

async function goto(page, url) {
  await page.goto(url);
  const notice = page.locator("#notice.error");
  const failed = notice.waitFor({ timeout: 0 }).then(async () => {
    throw new Error(`the page says: ${await notice.textContent()}`);
  });
  failed.catch(() => {}); // It goes on waiting when the page is closed.
  const ready = page.waitForFunction(() => window.demo, undefined, { timeout: 120_000 });
  await Promise.race([ready.then(() => page.evaluate(() => window.demo.ready)), failed]);
}
