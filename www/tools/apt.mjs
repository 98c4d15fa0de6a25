// Debian's package manager: installs packages as root, and unpacks packages into a folder without root.

import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { onPath, read, run } from "./env.mjs";

/** Whether the system is Debian or a derivative. */
export const haveApt = () => Boolean(onPath("apt-get") && onPath("dpkg-deb"));

/** Returns the prefix that runs a command as root: nothing, or sudo. Undefined if neither is possible. */
function asRoot() {
  if (process.getuid() === 0) return [];
  if (onPath("sudo") && read("sudo", ["-n", "true"]) !== undefined) return ["sudo", "-n"];
}

/** Whether `aptInstall` can be called. */
export const mayInstall = () => haveApt() && asRoot() !== undefined;

/** Matches errors of a lock that another package manager holds, such as unattended upgrades on a new machine. */
const locked = /could not get lock|unable to (?:acquire|lock)|(?:is|was) locked by another process/i;
/** The seconds between two attempts, and the most seconds to wait. */
const [LOOK, PATIENCE] = [5, 900];

/** Installs packages for the whole system. Reports and waits while another package manager runs. */
export async function aptInstall(packages, say = () => {}) {
  const begun = Date.now();
  let isReported = false;
  const system = async (...args) => {
    const [cmd, ...rest] = [...asRoot(), "env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", ...args];
    for (;;) {
      try {
        return await run(cmd, rest, { quiet: true });
      } catch (error) {
        const isLate = Date.now() - begun > PATIENCE * 1000;
        if (isLate || !locked.test(`${error.message} ${error.output ?? ""}`)) throw error;
        if (!isReported) say("waits for another package manager (apt or dpkg) to end");
        isReported = true;
        await new Promise((resolve) => setTimeout(resolve, LOOK * 1000));
      }
    }
  };
  await system("dpkg", "--configure", "-a"); // Completes an interrupted installation.
  await system("apt-get", "update");
  await system("apt-get", "install", "-y", "--no-install-recommends", ...packages);
}

/**
 * Unpacks packages into the folder `into`: the named ones, their dependencies that match `also`, and other dependencies that
 * the system lacks. The system's package lists and packages do not change, so root is not needed.
 */
export async function aptUnpack(packages, also, into) {
  const scratch = join(into, "apt");
  for (const dir of ["lists/partial", "cache/archives/partial"]) mkdirSync(join(scratch, dir), { recursive: true });
  const own = [`Dir::State::Lists=${join(scratch, "lists")}`, `Dir::Cache=${join(scratch, "cache")}`];
  const options = [...own, "Debug::NoLocking=1", "APT::Sandbox::User="].flatMap((option) => ["-o", option]);

  await run("apt-get", [...options, "update"], { quiet: true });
  const kinds = ["recommends", "suggests", "conflicts", "breaks", "replaces", "enhances"].map((kind) => `--no-${kind}`);
  const depends = read("apt-cache", [...options, "depends", "--recurse", ...kinds, ...packages]);
  if (depends === undefined) throw new Error(`apt: the packages ${packages.join(", ")} do not exist in this distribution`);
  // Named one by one, because `--reinstall`, which fetches installed packages, does not include dependencies.
  const names = depends.split("\n").filter((line) => /^\w/.test(line) && (packages.includes(line) || also.test(line)));
  const install = ["install", "-y", "--download-only", "--reinstall", "--no-install-recommends"];
  await run("apt-get", [...options, ...install, ...names], { quiet: true });

  const archives = join(scratch, "cache", "archives");
  for (const name of readdirSync(archives).filter((file) => file.endsWith(".deb"))) {
    await run("dpkg-deb", ["-x", join(archives, name), into], { quiet: true });
  }
  rmSync(scratch, { recursive: true });
}
