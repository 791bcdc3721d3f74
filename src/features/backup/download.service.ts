import type { OpenedFile, OpenedFolder } from '../../../engine/index.ts';
import type { DetachedContext } from '../../../platform/context.ts';
import { AppError } from '../../../platform/errors.ts';
import { FairSlots } from '../../../platform/fair-slots.ts';
import { StreamAnswer } from '../../../platform/http/files/stream-answer.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import { archiveOf, whyLeftOut } from './archive/archive.ts';
import { answeringFailures, asAnswer } from './engine-failures.ts';
import type { OpenedImages } from './images/opened-images.ts';
import { findState } from './open-snapshot.ts';
import type { DownloadQuery } from './reading.schema.ts';
import type { RepositoryReaders } from './repository-readers.ts';
import { withoutSlashes } from './shown-entry.ts';

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
    const opened = await answeringFailures(async () => {
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

/** What the engine cannot read before the first byte is sent becomes an answer. */
async function* answered(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void> {
  try {
    yield* pieces;
  } catch (error) {
    throw asAnswer(error);
  }
}
