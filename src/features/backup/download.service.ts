import { clock } from '../../clock.ts';
import {
  encodeTarHeader,
  type FolderItem,
  type LeftOutQuery,
  type OpenedFile,
  type OpenedFolder,
  TAR_END,
  type TarEntry,
  tarPaddingOf,
} from '../../engine/index.ts';
import type { DetachedContext } from '../../platform/context.ts';
import { AppError } from '../../platform/errors.ts';
import { FairSlots } from '../../platform/fair-slots.ts';
import { StreamAnswer } from '../../platform/http/stream-answer.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { pathBytes, shortened } from '../../protocol/index.ts';
import { instantOf, withoutSlashes } from './browse.service.ts';
import type { OpenedImages } from './images.ts';
import { findState, mapEngineErrors, type RepositoryReaders, toApiError } from './repository-readers.ts';
import type { DownloadQuery } from './snapshot.schema.ts';

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
function whyLeftOut({ name, type, path }: LeftOutQuery): string | undefined {
  if (KINDS[type] !== undefined) return KINDS[type];
  const bytes = pathBytes(name);
  if (bytes.includes(BACKSLASH)) return 'backslash in the name';
  if (bytes.length > NAME_BYTES_MAX) return 'name too long';
  if (pathBytes(path).length > PATH_BYTES_MAX) return 'path too long';
  return undefined;
}

/** @param name  of the one folder that everything is in */
async function* archiveOf(folder: OpenedFolder, name: string): AsyncGenerator<Buffer, void> {
  const leftOut = new LeftOut();
  yield encodeTarHeader({ ...factsOf(folder.entry), path: name, type: 'directory', size: 0 });
  for await (const item of folder.read()) {
    const path = pathBytes(`${name}/${item.path}`);
    if (item.leftOut !== undefined) {
      leftOut.add(item, item.leftOut);
    } else if (item.content === null) {
      yield encodeTarHeader({ ...factsOf(item.entry), path, type: 'directory', size: 0 });
    } else {
      const size = item.content.length;
      yield encodeTarHeader({ ...factsOf(item.entry), path, type: 'file', size });
      yield* item.content.read();
      yield Buffer.alloc(tarPaddingOf(size));
    }
  }
  if (leftOut.count > 0) yield* textFile(`left-out-of-${name}.txt`, leftOut.text());
  yield TAR_END;
}

function* textFile(path: string, text: string): Generator<Buffer, void> {
  const content = Buffer.from(text);
  yield encodeTarHeader({ path, type: 'file', size: content.length, mode: 0o600, modifiedAt: clock.date() });
  yield content;
  yield Buffer.alloc(tarPaddingOf(content.length));
}

function factsOf(entry: OpenedFolder['entry']): Pick<TarEntry, 'mode' | 'modifiedAt'> {
  const at = instantOf(entry?.modifiedAt ?? null);
  return { mode: entry?.mode ?? null, modifiedAt: at === null ? null : new Date(at) };
}

/** The note to the reader of an archive about missing files. */
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
const oneLine = (text: string): string => shortened(text, LINE_MAX).replace(/\p{Cc}/gu, '?');

/** Each unpacks what it sends in this process, and keeps where the parts of its files lie: 64 bytes for each. */
const OF_PERSON = 3;
const OF_ALL = 18;
const WAITING_OF_PERSON = 5;
const WAIT_MS = 3000;
const RETRY_AFTER_MS = 2000;

/** A file of about a terabyte, or a folder of so many files. Larger ones are restored to a device. */
const LIMITS = { entries: 300_000, parts: 1_000_000 };

/** How long a download takes, is up to its client: from when it is opened until its answer has ended. */
interface Request {
  signal: AbortSignal;
  closed: Promise<void>;
}

/** Downloads of all callers. Nothing of them is ever on a disk. */
export class SnapshotDownloads {
  readonly #readers: RepositoryReaders;
  readonly #images: OpenedImages;
  /** A client that takes next to nothing is cut off by `StreamAnswer`. */
  readonly #slots = new FairSlots({
    all: OF_ALL,
    waitMs: WAIT_MS,
    waitingMax: { all: 40, widest: 20 },
    refusal: () =>
      new AppError('rate_limited', 'Too many downloads are running at once. Wait for some of them to end.', {
        retryAfterMs: RETRY_AFTER_MS,
      }),
  });

  constructor({ readers, images }: { readers: RepositoryReaders; images: OpenedImages }) {
    this.#readers = readers;
    this.#images = images;
  }

  async open(
    ctx: DetachedContext,
    { id, path, asOf, machine, disk, partition }: DownloadQuery & { id: string },
    request: Request,
  ): Promise<StreamAnswer> {
    const state = await findState(ctx, { id, asOf });
    const { snapshot, repository } = state;
    await this.#turn(ctx, snapshot.orgId, request);
    const opened = await mapEngineErrors(async () => {
      const { reader } = await this.#readers.open(repository, state.asOf);
      const query = { limits: LIMITS, leaveOut: whyLeftOut, signal: request.signal };
      if (disk === undefined) return reader.openContent({ snapshotId: snapshot.engineId, path }, query);
      const files = await this.#images.open(reader, snapshot, { machine, disk, partition }, request.signal);
      return files.openContent(path, query);
    });
    if (opened === 'too_large') {
      throw new AppError('conflict', 'This is too much for a download. Restore it to a device.', {
        details: { code: 'TOO_LARGE' },
      });
    }
    const volume = omitUndefined({ machine, disk, partition });
    const details = { path: withoutSlashes(path) || '/', asOf: state.asOf, ...volume };
    const noted = { orgId: snapshot.orgId, resourceId: snapshot.id, details };
    return opened.type === 'file'
      ? fileAnswer(
          opened,
          disk === undefined ? opened.contentId : `${snapshot.id}-${opened.contentId}`,
          noted,
        )
      : folderAnswer(opened, snapshot.engineId, noted);
  }

  #turn({ caller }: DetachedContext, orgId: string, request: Request): Promise<void> {
    const tenant = caller.partnerId ?? caller.orgId ?? 'system';
    const holder = {
      levels: [`tenant ${tenant}`, `organization ${orgId}`],
      leaf: { key: `person ${caller.userId}`, max: OF_PERSON, waitingMax: WAITING_OF_PERSON },
    };
    return this.#slots.hold(holder, request);
  }
}

type Noted = StreamAnswer['noted'];

/** @param tag  changes with the content, also between snapshots */
function fileAnswer({ entry, content }: OpenedFile, tag: string, noted: Noted): StreamAnswer {
  return new StreamAnswer({
    fileName: entry.name,
    type: 'application/octet-stream',
    known: { length: content.length, etag: `"${tag}"` },
    read: (range) => answered(content.read(range)),
    noted: withDetails(noted, { kind: 'file', sizeBytes: content.length }),
  });
}

function folderAnswer(folder: OpenedFolder, engineId: string, noted: Noted): StreamAnswer {
  const name = archiveName(folder.entry?.name ?? `snapshot-${engineId.slice(0, 8)}`);
  return new StreamAnswer({
    fileName: `${name}.tar`,
    type: 'application/x-tar',
    read: () => answered(archiveOf(folder, name)),
    noted: withDetails(noted, { kind: 'folder', entries: folder.entries, sizeBytes: folder.bytes }),
  });
}

const withDetails = (noted: Noted, details: Noted['details']): Noted => ({
  ...noted,
  details: { ...noted.details, ...details },
});

/** The folder that everything in an archive is in: of harmless characters, whatever the snapshot calls it. */
function archiveName(name: string): string {
  const harmless = Array.from(name.replace(/[^\p{L}\p{N} ._-]/gu, '_'))
    .slice(0, 50)
    .join('');
  return harmless.replace(/^[. ]+|[. ]+$/g, '') || 'folder';
}

/** A failure of the engine before the first byte is sent becomes an error answer. */
async function* answered(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void> {
  try {
    yield* pieces;
  } catch (error) {
    throw toApiError(error);
  }
}
