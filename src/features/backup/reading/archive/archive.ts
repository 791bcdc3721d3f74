import { clock } from '../../../../clock.ts';
import type { FolderItem, LeftOutQuery, OpenedFolder } from '../../../../engine/index.ts';
import { instantOf } from '../shown-entry.ts';
import { pathBytes } from '../../../../protocol/index.ts';
import { TAR_END, type TarEntry, tarHeader, tarPadding } from '../../../../platform/http/files/tar.ts';

/**
 * A folder of a snapshot as a tar archive. A snapshot can have been written by an attacker, and programs that unpack
 * archives differ in what they let an archive do. So there are only files and folders in it, below one folder: no link
 * that a later entry could be written through, and no name that some system takes for a path. What is left out is listed in
 * a text at the end.
 */

/** As many as file systems allow. */
const NAME_BYTES_MAX = 255;
const PATH_BYTES_MAX = 4000;
const LISTED_MAX = 10_000;
const BACKSLASH = 0x5c;

const KINDS: Partial<Record<LeftOutQuery['type'], string>> = {
  symlink: 'symbolic link',
  dev: 'device',
  chardev: 'device',
  fifo: 'pipe',
  socket: 'socket',
  irregular: 'of an unknown kind',
};

/** Why an entry is not in an archive. */
export function whyLeftOut({ name, type, path }: LeftOutQuery): string | undefined {
  if (KINDS[type] !== undefined) return KINDS[type];
  const bytes = pathBytes(name);
  if (bytes.includes(BACKSLASH)) return 'backslash in the name';
  if (bytes.length > NAME_BYTES_MAX) return 'name too long';
  if (pathBytes(path).length > PATH_BYTES_MAX) return 'path too long';
  return undefined;
}

/** @param name  of the one folder that everything is in */
export async function* archiveOf(folder: OpenedFolder, name: string): AsyncGenerator<Buffer, void> {
  const leftOut = new LeftOut();
  yield tarHeader({ ...factsOf(folder.entry), path: name, type: 'directory', size: 0 });
  for await (const item of folder.read()) {
    const path = pathBytes(`${name}/${item.path}`);
    if (item.leftOut !== undefined) {
      leftOut.add(item, item.leftOut);
    } else if (item.content === null) {
      yield tarHeader({ ...factsOf(item.entry), path, type: 'directory', size: 0 });
    } else {
      const size = item.content.length;
      yield tarHeader({ ...factsOf(item.entry), path, type: 'file', size });
      yield* item.content.read();
      yield tarPadding(size);
    }
  }
  if (leftOut.count > 0) yield* textFile(`left-out-of-${name}.txt`, leftOut.text());
  yield TAR_END;
}

function* textFile(path: string, text: string): Generator<Buffer, void> {
  const content = Buffer.from(text);
  yield tarHeader({ path, type: 'file', size: content.length, mode: 0o600, modifiedAt: clock.date() });
  yield content;
  yield tarPadding(content.length);
}

function factsOf(entry: OpenedFolder['entry']): Pick<TarEntry, 'mode' | 'modifiedAt'> {
  const at = instantOf(entry?.modifiedAt ?? null);
  return { mode: entry?.mode ?? null, modifiedAt: at === null ? null : new Date(at) };
}

/** What the reader of an archive has to know is missing. */
class LeftOut {
  count = 0;
  readonly #lines: string[] = [];

  add({ path, entry }: FolderItem, reason: string): void {
    this.count += 1;
    if (this.#lines.length >= LISTED_MAX) return;
    const target = entry.linkTarget === null ? '' : ` -> ${oneLine(entry.linkTarget)}`;
    this.#lines.push(`${reason}: ${oneLine(path)}${target}`);
  }

  text(): string {
    const more = this.count - this.#lines.length;
    return [
      'These entries of the snapshot are not in this archive. Restore the snapshot to a device to get them.',
      '',
      ...this.#lines,
      ...(more === 0 ? [] : [`and ${more} more`]),
      '',
    ].join('\n');
  }
}

const LINE_MAX = 1000;
const oneLine = (text: string): string => text.slice(0, LINE_MAX).replace(/\p{Cc}/gu, '?');
