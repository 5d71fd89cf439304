/** The folder of a file fence: one folder per resource, each with its lock and its content. */
import { mkdir, readdir, rename, rm, stat, statfs, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { GuaranteeError, UnavailableError } from "../../core/errors.js";
import { FREE } from "./lock.js";
import { formatOwner, isDead, parseOwner, thisProcess, type Owner } from "./owner.js";
import { flushFolder } from "./replace.js";

/** An opened folder, and the process that opened it. */
export interface Directory {
  readonly path: string;
  readonly owner: Owner;
}

const BEGUN = "begun.";

/**
 * File systems whose renames other machines see late, or whose other users have another kernel:
 * magic numbers of statfs(2).
 */
const SHARED: ReadonlyMap<number, string> = new Map([
  [0x6969, "NFS"],
  [0x517b, "SMB"],
  [0xff534d42, "CIFS"],
  [0xfe534d42, "SMB2"],
  [0x00c36400, "Ceph"],
  [0x01021997, "9p"],
  [0x01161970, "GFS2"],
  [0x7461636f, "OCFS2"],
  [0x0bd00bd0, "Lustre"],
  [0x5346414f, "AFS"],
  [0x65735546, "FUSE"],
  [0x786f4256, "a VirtualBox share"],
  [0xbacbacbc, "a VMware share"],
]);

/**
 * Makes the folder if only it is missing, and removes what killed processes had begun in it.
 *
 * @throws GuaranteeError on a network file system.
 */
export async function openDirectory(path: string, pid: number): Promise<Directory> {
  const directory = { path: resolve(path), owner: await thisProcess(pid) };
  try {
    await mkdir(directory.path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") {
      throw new UnavailableError(`${resolve(path, "..")} does not exist; create it first`, {
        cause: error,
        backend: "file",
        retryable: false,
      });
    }
    if (code !== "EEXIST") throw error;
  }
  const { type } = await statfs(directory.path);
  const shared = SHARED.get(type >>> 0);
  if (shared !== undefined) {
    throw new GuaranteeError(
      `${directory.path} is on ${shared}: a file fence needs a file system of this machine`,
      { backend: "file" },
    );
  }
  await removeBegun(directory);
  return directory;
}

/**
 * The folder of one resource. It appears with its lock in it, in one rename, so that of several
 * processes that make it at once one wins and the others use that one.
 */
export async function makeFolder(
  directory: Directory,
  folder: string,
  id: string,
): Promise<void> {
  if (await exists(folder)) return;
  const begun = join(directory.path, `${BEGUN}${formatOwner(directory.owner)}.${id}`);
  await mkdir(begun);
  try {
    await writeFile(join(begun, FREE), "", { flag: "wx" });
    await rename(begun, folder);
    await flushFolder(directory.path);
  } catch (error) {
    await rm(begun, { recursive: true, force: true });
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "ENOTEMPTY" && code !== "EEXIST" && code !== "EPERM") throw error;
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

async function removeBegun(directory: Directory): Promise<void> {
  for (const name of await readdir(directory.path)) {
    if (!name.startsWith(BEGUN)) continue;
    const owner = parseOwner(name.slice(BEGUN.length));
    if (owner !== undefined && (await isDead(owner, directory.owner))) {
      await rm(join(directory.path, name), { recursive: true, force: true });
    }
  }
}
