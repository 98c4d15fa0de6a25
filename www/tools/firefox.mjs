// A headless Firefox and its pages, by WebDriver as geckodriver speaks it: Playwright drives no Firefox of a distribution.
//
// What is here has the names and meanings of Playwright's, so that a script can take either.

import { spawn } from "node:child_process";
import { request } from "node:http";
import { createInterface } from "node:readline";
import { firefox, firefoxOptions, geckodriver } from "./env.mjs";

/** Sends a command to the driver at `port`, and gives its answer; waits for as long as that takes. */
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

/** Starts geckodriver; gives its process and its port. */
function startDriver() {
  // A port of its own, or two at once would meet.
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

/** Starts a headless Firefox with WebGPU and a profile of its own. */
export async function launch() {
  if (!firefox()) throw new Error("Firefox is not installed; run: npm run setup");
  const { driver, port: found } = startDriver();
  // geckodriver takes its Firefox along. A process that a signal ends says nothing of its exit.
  const end = () => driver.kill();
  const exit = () => process.exit(1);
  process.once("exit", end).once("SIGINT", exit).once("SIGTERM", exit);
  const port = await found;
  const wanted = { alwaysMatch: { "moz:firefoxOptions": firefoxOptions(), pageLoadStrategy: "normal" } };
  const { sessionId, capabilities } = await send(port, "POST", "/session", { capabilities: wanted });
  const command = (method, path, body) => send(port, method, `/session/${sessionId}/${path}`, body);
  // That scripts may take for ever is asked for by null, and then Firefox does not wait for them at all.
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

/** A page in a tab of its own; the tab `home` stays open. */
async function newPage(command, home) {
  await command("POST", "window", { handle: home });
  const { handle } = await command("POST", "window/new", { type: "tab" });
  // A command goes to the tab that was switched to last.
  const here = async (method, path, body) => {
    await command("POST", "window", { handle });
    return command(method, path, body);
  };
  // By the page's own `eval`: what a driver runs by itself lies in a world of its own, without `import()`.
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
