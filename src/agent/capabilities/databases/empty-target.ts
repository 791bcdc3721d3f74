import type { FileHandle } from 'node:fs/promises';
import { targetError } from '../../repository/local-engine.ts';
import { checkTargetPath, findTarget } from '../../repository/target-folder.ts';
import type { OpenFolder } from '../../os/files/open-folder.ts';
import type { SystemUser } from './program.ts';

/**
 * The folder that a database is restored into. During the restore it belongs to the agent, so that no other
 * user can redirect the agent; afterwards all of it belongs to the database user, who owned it before.
 */
export class EmptyTarget {
  readonly path: string;
  readonly user: SystemUser;
  readonly #folder: OpenFolder;
  readonly #made: string[] = [];
  #open: { names: readonly string[]; folder: OpenFolder } | undefined;
  files = 0;
  bytes = 0;

  private constructor(folder: OpenFolder, user: SystemUser) {
    this.#folder = folder;
    this.path = folder.path;
    this.user = user;
  }

  /** Throws `AgentError` if the folder cannot be used. Nothing is changed. */
  static async open(target: string, forbidden: string): Promise<EmptyTarget> {
    checkTargetPath(target, forbidden);
    const folder = await findTarget(target);
    if (folder === undefined) {
      throw targetError(
        'TARGET_UNSAFE',
        `The folder ${target} does not exist. Create it for the user of the database.`,
      );
    }
    try {
      checkTargetPath(folder.path, forbidden);
      if ((await folder.names()).length > 0) {
        throw targetError('TARGET_NOT_EMPTY', `The folder ${target} is not empty.`);
      }
      const { uid, gid } = await folder.stat();
      if (uid === 0n) {
        throw targetError(
          'TARGET_UNSAFE',
          `The folder ${target} belongs to root. It has to belong to the user that the database runs as.`,
        );
      }
      return new EmptyTarget(folder, { uid: Number(uid), gid: Number(gid) });
    } catch (error) {
      await folder.close();
      throw error;
    }
  }

  /** From here until `handOver`, no other user can access the folder. */
  async take(): Promise<void> {
    await this.#folder.setOwner(process.getuid?.() ?? 0, process.getgid?.() ?? 0);
    await this.#folder.setMode(0o700);
  }

  async makeFolder(names: readonly string[]): Promise<void> {
    const parent = await this.#at(names.slice(0, -1));
    const name = names.at(-1) ?? '';
    if ((await parent.find(name)) !== undefined) return;
    const made = await parent.makeFolder(name);
    await made.close();
    this.#made.push(names.join('/'));
  }

  /** Creates a file for the database user, and replaces an existing one. */
  async newFile(names: readonly string[]): Promise<FileHandle> {
    const parent = await this.#at(names.slice(0, -1));
    const name = names.at(-1) ?? '';
    const found = await parent.find(name);
    if (found?.isFile() === true) await parent.removeFile(name);
    const file = await parent.newFile(name);
    await file.chown(this.user.uid, this.user.gid);
    this.files += 1;
    return file;
  }

  async appendTo(names: readonly string[]): Promise<FileHandle> {
    return (await this.#at(names.slice(0, -1))).appendTo(names.at(-1) ?? '');
  }

  /** Writes into a target that belongs to the database user. */
  async makeFolderOfUser(name: string): Promise<void> {
    const made = await this.#folder.makeFolder(name);
    try {
      await made.setOwner(this.user.uid, this.user.gid);
    } finally {
      await made.close();
    }
  }

  async removeFolderOfUser(name: string): Promise<void> {
    await this.#folder.removeAll(name);
  }

  async has(names: readonly string[]): Promise<boolean> {
    try {
      return (await (await this.#at(names.slice(0, -1))).find(names.at(-1) ?? '')) !== undefined;
    } catch {
      return false;
    }
  }

  async namesIn(names: readonly string[]): Promise<string[]> {
    return (await (await this.#at(names)).names()).map((name) => name.toString());
  }

  async sizeOf(names: readonly string[]): Promise<number> {
    return Number((await (await this.#at(names.slice(0, -1))).find(names.at(-1) ?? ''))?.size ?? 0);
  }

  /** Gives everything to the user of the database. */
  async handOver(): Promise<void> {
    const { uid, gid } = this.user;
    // Innermost first: once a folder belongs to another user, nothing below it can be trusted.
    for (const names of this.#made.map((each) => each.split('/')).sort((a, b) => b.length - a.length)) {
      await (await this.#at(names)).setOwner(uid, gid);
    }
    await this.#closeOpen();
    await this.#folder.setMode(0o700);
    await this.#folder.setOwner(uid, gid);
  }

  /** Empties the folder again. */
  async empty(): Promise<void> {
    await this.take();
    await this.#closeOpen();
    for (const { name } of await this.#folder.entries()) await this.#folder.removeAll(name);
    await this.#folder.setOwner(this.user.uid, this.user.gid);
  }

  async close(): Promise<void> {
    await this.#closeOpen();
    await this.#folder.close();
  }

  /** Files come folder by folder, so the last folder stays open. */
  async #at(names: readonly string[]): Promise<OpenFolder> {
    if (names.length === 0) return this.#folder;
    if (this.#open?.names.join('/') === names.join('/')) return this.#open.folder;
    await this.#closeOpen();
    let folder = this.#folder;
    for (const name of names) {
      const above = folder;
      try {
        folder = await above.folder(name);
      } finally {
        if (above !== this.#folder) await above.close();
      }
    }
    this.#open = { names: [...names], folder };
    return folder;
  }

  async #closeOpen(): Promise<void> {
    await this.#open?.folder.close();
    this.#open = undefined;
  }
}
