import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  lstatSync,
  openSync,
  readSync,
  renameSync,
  writeSync,
} from 'node:fs';

export interface LineFileLimits {
  /** A file that would become larger gets the name `<file>.1`, and a new one begins. */
  maxBytes: number;
  /** How many former files are kept, at least one: `<file>.1` is the newest. */
  formerFiles: number;
  /** Whether the line must survive a power cut: then the call waits for the disk. */
  isDurable: boolean;
}

/**
 * Appends a line to a private file of bounded size. When this returns, the line survives the end of the process. A line
 * that was torn by a power cut or a full disk is ended first, so that it spoils no other one.
 */
export function appendLine(file: string, line: string, limits: LineFileLimits): void {
  const text = `${line}\n`;
  if (sizeOf(file) + Buffer.byteLength(text) > limits.maxBytes) rotate(file, limits.formerFiles);
  const handle = openSync(file, APPEND, 0o600);
  try {
    const found = fstatSync(handle);
    if (!found.isFile()) throw new Error(`${file} is not a regular file.`);
    const whole = isTorn(handle, found.size) ? `\n${text}` : text;
    const written = writeSync(handle, whole);
    if (written < Buffer.byteLength(whole)) throw new Error(`${file}: only a part of the line was written.`);
    if (limits.isDurable) fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

const APPEND =
  constants.O_RDWR |
  constants.O_APPEND |
  constants.O_CREAT |
  constants.O_NOFOLLOW |
  // Without it, opening a pipe waits until somebody reads from it. Windows does not know it.
  (constants.O_NONBLOCK ?? 0);

function isTorn(handle: number, size: number): boolean {
  const last = Buffer.alloc(1);
  return size > 0 && readSync(handle, last, 0, 1, size - 1) === 1 && last.toString() !== '\n';
}

function sizeOf(file: string): number {
  return lstatSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

function rotate(file: string, formerFiles: number): void {
  for (let number = formerFiles - 1; number >= 0; number--) {
    const from = number === 0 ? file : `${file}.${number}`;
    if (lstatSync(from, { throwIfNoEntry: false }) !== undefined) renameSync(from, `${file}.${number + 1}`);
  }
}
