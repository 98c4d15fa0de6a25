// A small web server for folders of this repository, and Chromium pages on it.

import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize, sep } from "node:path";
import { chromium as playwright } from "playwright-core";
import { chromium, chromiumArgs } from "../../tools/env.mjs";

/** Whether only a part of the tests runs that are repeated in another browser or on another device, as in a full `npm test`. */
export const isSample = Number(process.env.WARPWEFT_EVERY ?? "1") > 1;

const types = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".mjs": "text/javascript",
  ".css": "text/css",
  ".wasm": "application/wasm",
};

/** Returns the range of bytes in a request, or all bytes if it has none. */
function rangeOf({ headers }, length) {
  const [, start, end] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? "") ?? [];
  return start === undefined ? undefined : { start: Number(start), end: Math.min(Number(end), length - 1) };
}

/** Serves folders, `{ "/dist/": path, ... }`, and an empty page at `/`. Returns the address and `close()`. */
export async function serve(folders) {
  const server = createServer((request, response) => {
    // `/copy1/` is `/dist/`. Under another address, a page loads the package again.
    const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname).replace(/^\/copy\d+\//, "/dist/");
    if (path === "/") {
      response.writeHead(200, { "content-type": "text/html" }).end('<!doctype html><link rel="icon" href="data:,">');
      return;
    }
    const prefix = Object.keys(folders).find((start) => path.startsWith(start));
    const file = prefix && normalize(join(folders[prefix], path.slice(prefix.length)));
    const inside = file && file.startsWith(normalize(folders[prefix] + sep)) && existsSync(file);
    if (!inside || !statSync(file).isFile()) {
      response.writeHead(404).end();
      return;
    }
    const length = statSync(file).size;
    const range = rangeOf(request, length);
    const headers = { "content-type": types[extname(file)] ?? "application/octet-stream" };
    if (range) headers["content-range"] = `bytes ${range.start}-${range.end}/${length}`;
    response.writeHead(range ? 206 : 200, headers);
    createReadStream(file, range).pipe(response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { address: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

/** Starts Chromium with the flags of all tests, plus `extra`, minus those that `without` matches. */
export async function launch(extra = [], without = /^$/) {
  const executablePath = chromium();
  if (!executablePath) throw new Error("no Chromium: npm run setup");
  const args = chromiumArgs().filter((arg) => arg !== "--headless" && !without.test(arg));
  return playwright.launch({ executablePath, headless: true, args: [...args, ...extra] });
}

/** Opens a page at `address`. Returns it and the list of errors on its console. */
export async function open(browser, address) {
  const page = await browser.newPage();
  const errors = [];
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  page.on("pageerror", (error) => errors.push(String(error)));
  await page.goto(address);
  return { page, errors };
}

/** Prints results, `{ name, error }` each, and ends the process. */
export function finish(results) {
  for (const { name, error } of results.filter((result) => result.error)) console.log(`FAILED ${name}: ${error}`);
  const failed = results.filter((result) => result.error).length;
  console.log(`${results.length - failed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}
