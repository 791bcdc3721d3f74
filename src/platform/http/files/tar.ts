/**
 * Headers of a tar archive in the form of POSIX.1-2001 (pax), which carries names of any length and files of any size, and
 * which every tar of today reads. Only files and folders: see `archive.ts`.
 */

import { isUtf8 } from 'node:buffer';

const BLOCK = 512;
/** The largest number that eleven octal digits hold. */
const OCTAL_MAX = 0o77777777777;

export interface TarEntry {
  /** Relative, with slashes. Bytes where it need not be UTF-8. */
  path: string | Uint8Array;
  type: 'file' | 'directory';
  size: number;
  mode: number | null;
  modifiedAt: Date | null;
}

/** Everything that stands before the content of an entry. */
export function tarHeader({ path, type, size, mode, modifiedAt }: TarEntry): Buffer {
  const given = typeof path === 'string' ? Buffer.from(path) : path;
  const bytes = Buffer.concat([given, Buffer.from(type === 'directory' ? '/' : '')]);
  const name = bytes.toString('latin1');
  const seconds = Math.min(Math.max(0, Math.floor((modifiedAt?.getTime() ?? 0) / 1000)), OCTAL_MAX);
  const isPlain = /^[\x20-\x7e]{1,100}$/.test(name);
  const records = [
    // A reader that converts names to its own encoding must not do so with bytes that have none.
    ...(isUtf8(bytes) ? [] : [record('hdrcharset', Buffer.from('BINARY'))]),
    ...(isPlain ? [] : [record('path', bytes)]),
    ...(size > OCTAL_MAX ? [record('size', Buffer.from(`${size}`))] : []),
  ];
  const fields = { size: Math.min(size, OCTAL_MAX), seconds };
  const own = header({
    ...fields,
    // Without the rights of its owner nobody could write what is in a folder, or remove it again.
    mode: ((mode ?? 0) & 0o777) | (type === 'directory' ? 0o700 : 0o600),
    name: isPlain ? name : 'see-the-header-before',
    kind: type === 'directory' ? '5' : '0',
  });
  if (records.length === 0) return own;
  const text = Buffer.concat(records);
  const extended = header({ name: 'PaxHeader', kind: 'x', mode: 0o600, size: text.length, seconds });
  return Buffer.concat([extended, text, tarPadding(text.length), own]);
}

/** What follows the content of a file. */
export const tarPadding = (size: number): Buffer => Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK);

/** What ends an archive. */
export const TAR_END = Buffer.alloc(2 * BLOCK);

interface HeaderFields {
  name: string;
  kind: '0' | '5' | 'x';
  mode: number;
  size: number;
  seconds: number;
}

function header({ name, kind, mode, size, seconds }: HeaderFields): Buffer {
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, digits: number) =>
    block.write(`${value.toString(8).padStart(digits, '0')}\0`, at, 'latin1');
  block.write(name, 0, 100, 'latin1');
  octal(mode, 100, 7);
  octal(0, 108, 7);
  octal(0, 116, 7);
  octal(size, 124, 11);
  octal(seconds, 136, 11);
  block.write('        ', 148, 'latin1');
  block.write(kind, 156, 'latin1');
  block.write('ustar\x0000', 257, 'latin1');
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return block;
}

/** `<length> <key>=<value>\n`, where the length counts itself. */
function record(key: string, value: Buffer): Buffer {
  const rest = Buffer.concat([Buffer.from(` ${key}=`), value, Buffer.from('\n')]);
  let length = rest.length;
  while (String(length).length + rest.length !== length) length = String(length).length + rest.length;
  return Buffer.concat([Buffer.from(String(length)), rest]);
}
