import { escapeLiteral, pathBytes, printedPath } from '../../protocol/index.ts';
import { EngineError } from '../engine-error.ts';
import type { EngineEntry } from './documents.ts';

/** The names in a folder of a snapshot, all as `pathText` writes them. */
export type ReadNames = (folder: string) => Promise<readonly string[]>;

interface Folder {
  printed: string;
  exact: string;
  /** How often each name that is not exact was printed in it. */
  seen: Map<string, number>;
  /** Those that are printed alike, in the order of their bytes. */
  alike: Map<string, string[]> | undefined;
}

const UNKNOWN = '\ufffd';

/**
 * Finds out which entries `restic ls` means. It prints U+FFFD in place of each byte that is not UTF-8, so that the names of
 * several files can look the same; but it prints the names of each folder in the order of their bytes, each followed by what
 * is in it. Only folders with such names are read a second time.
 */
export class ExactNames {
  readonly #read: ReadNames | undefined;
  /** The folders that the next entry can be in. */
  readonly #open: Folder[] = [];

  constructor(read: ReadNames | undefined) {
    this.#read = read;
  }

  /** The entry with its name and path as `pathText` writes them. Throws REPOSITORY_DAMAGED where nothing is called so. */
  async of(entry: EngineEntry): Promise<EngineEntry> {
    const at = entry.path.lastIndexOf('/');
    const folder = this.#folder(entry.path.slice(0, at));
    const printed = entry.path.slice(at + 1);
    const name = printed.includes(UNKNOWN) ? await this.#exact(folder, printed) : escapeLiteral(printed);
    const path = `${folder.exact}/${name}`;
    if (entry.type === 'dir') this.#open.push(opened(entry.path, path));
    return { ...entry, name, path };
  }

  #folder(printed: string): Folder {
    while (this.#open.length > 0 && this.#open.at(-1)?.printed !== printed) this.#open.pop();
    const known = this.#open.at(-1);
    if (known !== undefined) return known;
    if (printed.includes(UNKNOWN)) throw disagreement(printed);
    const folder = opened(printed, escapeLiteral(printed));
    this.#open.push(folder);
    return folder;
  }

  async #exact(folder: Folder, printed: string): Promise<string> {
    if (this.#read === undefined) return escapeLiteral(printed);
    folder.alike ??= alikeIn(await this.#read(folder.exact));
    const at = folder.seen.get(printed) ?? 0;
    folder.seen.set(printed, at + 1);
    const name = folder.alike.get(printed)?.[at];
    if (name === undefined) throw disagreement(`${folder.printed}/${printed}`);
    return name;
  }
}

const opened = (printed: string, exact: string): Folder => ({
  printed,
  exact,
  seen: new Map(),
  alike: undefined,
});

function alikeIn(names: readonly string[]): Map<string, string[]> {
  const alike = new Map<string, string[]>();
  for (const name of names) {
    const printed = printedPath(name);
    if (!printed.includes(UNKNOWN)) continue;
    const known = alike.get(printed);
    if (known === undefined) alike.set(printed, [name]);
    else known.push(name);
  }
  for (const same of alike.values()) {
    same.sort((one, other) => Buffer.compare(pathBytes(one), pathBytes(other)));
  }
  return alike;
}

const disagreement = (path: string) =>
  new EngineError('REPOSITORY_DAMAGED', {
    detail: `The folder does not have what restic has listed: ${path}`,
  });
