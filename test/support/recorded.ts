import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';

/**
 * Outputs and messages of real systems, recorded elsewhere, which tests read beside the made-up ones. They are no part of
 * the project: they lie in `shared/real`, beside it or beside the folder of its worktrees.
 */
export interface Recorded {
  /** The paths of all files below the folder, sorted, with `/`, and without `.gz`. */
  files: readonly string[];
  /** The content of a file, unpacked if it is packed. */
  bytes(file: string): Buffer;
  text(file: string): string;
}

const ROOTS = ['..', '../..'].map((up) => path.resolve(import.meta.dirname, '../..', up, 'shared/real'));

/** @param part  a folder of the recordings, such as `sso/saml`. Undefined if it is not there. */
export function recorded(part: string): Recorded | undefined {
  const folder = ROOTS.map((root) => path.join(root, part)).find((found) => existsSync(found));
  if (folder === undefined) return undefined;
  const bytes = (file: string): Buffer => {
    const plain = path.join(folder, file);
    return existsSync(plain) ? readFileSync(plain) : gunzipSync(readFileSync(`${plain}.gz`));
  };
  return { files: filesIn(folder), bytes, text: (file) => bytes(file).toString() };
}

function filesIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => path.relative(folder, path.join(parentPath, name)))
    .map((file) => file.replaceAll(path.sep, '/').replace(/\.gz$/, ''))
    .sort();
}

/**
 * A suite over recordings. A clean clone has none: then it has no tests, instead of skipped ones, and one line says so.
 */
export function describeRecorded(part: string, title: string, define: (recordings: Recorded) => void): void {
  const found = recorded(part);
  if (found !== undefined) describe(title, () => define(found));
  else process.stdout.write(`  ${title}: no recordings of ${part} here, nothing is read\n`);
}
