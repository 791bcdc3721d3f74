import { createHash, randomInt } from 'node:crypto';
import {
  EngineError,
  type FileContent,
  type FileSystemReader,
  openExt,
  openMachineIn,
  volumeOf,
} from '../../engine/index.ts';
import type { Db } from '../../platform/db/pool.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import type { BackupRepository, ObjectStorage } from '../backup-store/index.ts';
import { imagePathIn } from './images.ts';
import { RepositoryReaders } from './repository-readers.ts';
import type { BackupSnapshot } from './snapshot.model.ts';
import type { SampleFile, Verdict } from './verification.schema.ts';
import { shortened } from '../../protocol/index.ts';

/**
 * The test restore of images. A disk is too large to restore it for a test, so the server takes files out of it: the
 * archive, the partition tables and the file systems have to be whole for that, and every byte is checked against its hash.
 */

export interface ImageCheckParts {
  db: Db;
  storage: ObjectStorage;
  secrets: Encryptor;
}

type Machines = { machines: readonly { id: string }[] };

/** `undefined` for a snapshot without images that are read here. */
export function imagesOf({ details }: Pick<BackupSnapshot, 'details'>): (string | undefined)[] | undefined {
  if (details?.kind === 'image') return [undefined];
  if (details?.kind === 'machines' && details.hypervisor === 'kvm') return idsOf(details);
  return undefined;
}

/** A test looks at a few of many. */
const MACHINES_MAX = 5;
const idsOf = ({ machines }: Machines) => machines.slice(0, MACHINES_MAX).map(({ id }) => id);

const machinesIn = ({ details }: Pick<BackupSnapshot, 'details'>) =>
  details?.kind === 'machines' ? details.machines.length : 1;

const PARTS_MAX = 4_000_000;
const FILES_OF_VOLUME = 5;
const FILE_MAX = 64 * 2 ** 20;
const FOLDERS_MAX = 60;
const NAMES_OF_FOLDER = 200;
const HEAD_BYTES = 1024 * 1024;

export async function checkImages(
  { db, storage, secrets }: ImageCheckParts,
  { repository, snapshot }: { repository: BackupRepository; snapshot: BackupSnapshot },
  signal: AbortSignal,
): Promise<Verdict> {
  const readers = new RepositoryReaders({ db, storage, encryptor: secrets });
  const { reader } = await readers.open(repository, null);
  const tally: Tally = { sample: [], failed: [] };
  for (const machine of imagesOf(snapshot) ?? []) {
    const path = await imagePathIn(reader, snapshot, { machine, field: 'machine', signal });
    const opened = await reader.openContent(
      { snapshotId: snapshot.engineId, path },
      { limits: { entries: 10, parts: PARTS_MAX }, signal },
    );
    if (opened === 'too_large' || opened.type !== 'file') {
      throw new EngineError('SOURCE_UNREADABLE', { message: 'The image is too large for a test.' });
    }
    const { description, disks } = await openMachineIn(opened.content);
    for (const disk of description.disks) {
      const place = disks.find(({ name }) => name === disk.name);
      if (place === undefined) {
        const name = [machine, disk.name].filter((each) => each != null).join('/');
        tally.failed.push(shortened(`${name}: The image does not hold this disk.`, ERROR_MAX));
        continue;
      }
      for (const { partition, type, offset, sizeBytes } of disk.volumes) {
        signal.throwIfAborted();
        const name = [machine, disk.name, partition].filter((each) => each != null).join('/');
        const at = { offset: place.offset + offset, sizeBytes };
        await checkVolume({ name, content: opened.content, type, at }, tally, signal);
      }
    }
  }
  return { snapshotId: snapshot.id, ...verdictOf(tally, machinesIn(snapshot)) };
}

interface Tally {
  sample: SampleFile[];
  failed: string[];
}

const ERRORS_MAX = 20;
const ERROR_MAX = 300;

/** The verdict of a test by what was read: a test that has read nothing proves nothing. */
export function verdictOf({ sample, failed }: Tally, machines: number): Verdict {
  const isEmpty = sample.length === 0 && failed.length === 0;
  return {
    status: sample.length === 0 ? 'failed' : failed.length === 0 ? 'passed' : 'partial',
    filesVerified: sample.length,
    filesFailed: failed.length,
    sizeBytes: String(sample.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)),
    details: {
      sample,
      ...(failed.length === 0 ? {} : { errors: failed.slice(0, ERRORS_MAX) }),
      ...(failed.length > ERRORS_MAX ? { errorsAreCut: true } : {}),
      ...(machines > MACHINES_MAX ? { machines: { checked: MACHINES_MAX, of: machines } } : {}),
    },
    ...(isEmpty
      ? { errorCode: 'SOURCE_UNREADABLE', errorMessage: 'The images hold no file that a test could read.' }
      : {}),
  };
}

interface Volume {
  name: string;
  content: FileContent;
  type: string;
  at: { offset: number; sizeBytes: number };
}

/** Checks a volume. If its file system is one that the server cannot read, its head has to be there. */
async function checkVolume(
  { name, content, type, at }: Volume,
  { sample, failed }: Tally,
  signal: AbortSignal,
): Promise<void> {
  const volume = volumeOf(content, at);
  try {
    if (type !== 'ext') {
      const length = Math.min(HEAD_BYTES, volume.length);
      sample.push(await hashed(name, length, volume.stream(0, length)));
      return;
    }
    const files = await openExt(volume);
    for (const { path, sizeBytes } of await chooseFiles(files, signal)) {
      const query = { limits: { entries: 1, parts: 1000 }, signal };
      const opened = await files.openContent(path, query);
      if (opened === 'too_large' || opened.type !== 'file') continue;
      sample.push(await hashed(`${name}:${path}`, sizeBytes, opened.content.read()));
    }
  } catch (error) {
    if (!(error instanceof EngineError) || signal.aborted) throw error;
    failed.push(shortened(`${name}: ${error.message}`, ERROR_MAX));
  }
}

async function hashed(path: string, sizeBytes: number, pieces: AsyncIterable<Buffer>): Promise<SampleFile> {
  const hash = createHash('sha256');
  for await (const piece of pieces) hash.update(piece);
  const sha256 = hash.digest('hex');
  return { path: shortened(path, 4000), sizeBytes, sha256, restoredSha256: sha256 };
}

/** Files from folders at random, so that each test looks at others. */
async function chooseFiles(files: FileSystemReader, signal: AbortSignal) {
  const open = ['/'];
  const found: { path: string; sizeBytes: number }[] = [];
  for (let count = 0; open.length > 0 && count < FOLDERS_MAX; count += 1) {
    signal.throwIfAborted();
    const [folder = '/'] = open.splice(randomInt(open.length), 1);
    const { entries } = await files.listFolder({ path: folder, offset: 0, limit: NAMES_OF_FOLDER });
    for (const { name, type, sizeBytes } of entries) {
      const path = `${folder === '/' ? '' : folder}/${name}`;
      if (type === 'dir') open.push(path);
      if (type === 'file' && sizeBytes <= FILE_MAX) found.push({ path, sizeBytes });
    }
  }
  return Array.from({ length: Math.min(FILES_OF_VOLUME, found.length) }, () =>
    found.splice(randomInt(found.length), 1),
  ).flat();
}
