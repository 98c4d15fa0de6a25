// A headless Firefox and its pages, driven through geckodriver (WebDriver), because Playwright cannot drive a distribution's
// Firefox.
//
// The functions have the names and meanings of Playwright's, so that scripts can use both.

import { spawn } from "node:child_process";
import { request } from "node:http";
import { createInterface } from "node:readline";
import { firefox, firefoxOptions, geckodriver } from "./env.mjs";

/** Sends a command to the driver at `port`, and returns its answer, without a timeout. */
async function send(port, method, path, body) {
  const answer = await new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json" };
    const sent = request({ host: "127.0.0.1", port, method, path, headers, agent: false }, async (response) => {
      let text = "";
      for await (const part of response.setEncoding("utf8")) text += part;
      resolve(JSON.parse(text));
    });
    sent.on("error", reject).end(body && JSON.stringify(body));
  });
  if (answer.value?.error) throw new Error(answer.value.message || answer.value.error);
  return answer.value;
}

/** Starts geckodriver. Returns its process and a promise of its port. */
function startDriver() {
  // A free port, so that several drivers can run at once.
  const driver = spawn(geckodriver(), ["--port", "0"], { stdio: ["ignore", "pipe", "ignore"] });
  const port = new Promise((resolve, reject) => {
    driver.once("error", (error) => reject(new Error(`geckodriver: ${error.message}: npm run setup`)));
    driver.once("exit", (code) => reject(new Error(`geckodriver ended with ${code}`)));
    createInterface(driver.stdout).on("line", (line) => {
      const [, found] = line.match(/Listening on .*:(\d+)/) ?? [];
      if (found) resolve(Number(found));
    });
  });
  return { driver, port };
}

/** Starts a headless Firefox with WebGPU and a new profile. */
export async function launch() {
  if (!firefox()) throw new Error("Firefox is not installed; run: npm run setup");
  const { driver, port: found } = startDriver();
  // geckodriver ends its Firefox. A process that is ended by a signal emits no exit event, so signals exit explicitly.
  const end = () => driver.kill();
  const exit = () => process.exit(1);
  process.once("exit", end).once("SIGINT", exit).once("SIGTERM", exit);
  const port = await found;
  const wanted = { alwaysMatch: { "moz:firefoxOptions": firefoxOptions(), pageLoadStrategy: "normal" } };
  const { sessionId, capabilities } = await send(port, "POST", "/session", { capabilities: wanted });
  const command = (method, path, body) => send(port, method, `/session/${sessionId}/${path}`, body);
  // A long finite timeout, because with null (no timeout) Firefox does not wait for scripts at all.
  await command("POST", "timeouts", { script: 3_600_000, pageLoad: 60_000 });
  const home = await command("GET", "window");
  return {
    version: () => capabilities.browserVersion,
    newPage: () => newPage(command, home),
    async close() {
      await send(port, "DELETE", `/session/${sessionId}`);
      end();
      process.off("exit", end).off("SIGINT", exit).off("SIGTERM", exit);
    },
  };
}

/** Opens a page in a new tab. The tab `home` stays open. */
async function newPage(command, home) {
  await command("POST", "window", { handle: home });
  const { handle } = await command("POST", "window/new", { type: "tab" });
  // A command applies to the tab that was selected last.
  const here = async (method, path, body) => {
    await command("POST", "window", { handle });
    return command(method, path, body);
  };
  // Uses the page's `eval`, because a driver's scripts run in a separate sandbox without `import()`.
  const evaluate = (work, argument) => {
    const text = JSON.stringify(`(${work})(${JSON.stringify(argument) ?? ""})`);
    return here("POST", "execute/sync", { script: `return window.eval(${text})`, args: [] });
  };
  return {
    goto: (url) => here("POST", "url", { url }),
    evaluate,
    async waitForFunction(holds, argument, { timeout = 30_000 } = {}) {
      const until = Date.now() + timeout;
      while (!(await evaluate(`async (argument) => Boolean(await (${holds})(argument))`, argument))) {
        if (Date.now() > until) throw new Error(`not true after ${timeout / 1000} s: ${holds}`);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    },
    close: () => here("DELETE", "window"),
  };
}
