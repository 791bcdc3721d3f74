import { clock, type Timer } from '../../clock.ts';
import {
  EngineError,
  type FileContent,
  type FileSystemReader,
  findVolume,
  MACHINE_FILE,
  MACHINE_PATH,
  type OpenedMachine,
  openExt,
  openMachineIn,
  type RepositoryReader,
  volumeOf,
} from '../../engine/index.ts';
import { AppError, invalid, notFound } from '../../platform/errors.ts';
import { MACHINE_MANIFEST, MachineManifest } from '../../protocol/index.ts';
import type { BackupSnapshot } from './snapshot.model.ts';

/** Where the archive of a machine is in a snapshot: alone, or as one of the guests of a host. */

type ImageSnapshot = Pick<BackupSnapshot, 'engineId' | 'details' | 'backupType'>;
type Machines = MachineManifest['machines'];

const MANIFEST_MAX = 2_000_000;

/**
 * Throws `not_found` for a snapshot without images, and `validation_failed` for a machine that is missing in it.
 * @param field  that names the machine, for people
 */
export async function imagePathIn(
  reader: RepositoryReader,
  { engineId, details, backupType }: ImageSnapshot,
  { machine, field, signal }: { machine: string | undefined; field: string; signal: AbortSignal },
): Promise<string> {
  if (details?.kind === 'machines' && details.hypervisor === 'kvm') {
    const { folder, machines } = await readManifest(reader, engineId, signal);
    return `${folder}/${chosen(machines, machine, field).folder}/${MACHINE_FILE}`;
  }
  if (backupType !== 'system_image') throw notFound('Image of a machine');
  if (machine !== undefined) throw invalid(field, 'must be left out: the snapshot is of one machine');
  return MACHINE_PATH;
}

/**
 * Reads the manifest, which lies in the folder that was backed up. Holders of the key of a repository can write
 * anything there.
 */
async function readManifest(reader: RepositoryReader, snapshotId: string, signal: AbortSignal) {
  const { paths } = await reader.readSnapshot(snapshotId);
  const folder = paths[0]?.replace(/\/+$/, '') ?? '';
  const opened = await reader.openContent(
    { snapshotId, path: `${folder}/${MACHINE_MANIFEST}` },
    { limits: { entries: 10, parts: 100 }, signal },
  );
  if (opened === 'too_large' || opened.type !== 'file' || opened.content.length > MANIFEST_MAX) {
    throw unreadable();
  }
  const pieces: Buffer[] = [];
  for await (const piece of opened.content.read()) pieces.push(piece);
  return { folder, machines: parse(Buffer.concat(pieces)).machines };
}

function parse(content: Buffer): MachineManifest {
  try {
    return MachineManifest.parse(JSON.parse(content.toString('utf8')));
  } catch {
    throw unreadable();
  }
}

function chosen(machines: Machines, wanted: string | undefined, field: string): Machines[number] {
  const name = wanted?.toLowerCase();
  const found =
    name === undefined
      ? machines
      : machines.filter((each) => each.id.toLowerCase() === name || each.name.toLowerCase() === name);
  const [one] = found;
  if (one === undefined) throw invalid(field, 'must be a machine in the snapshot');
  if (found.length === 1) return one;
  throw wanted === undefined
    ? invalid(field, `is required: the snapshot has ${found.length} machines`)
    : invalid(field, 'is the name of several machines: give the id of one');
}

const unreadable = () =>
  new EngineError('REPOSITORY_DAMAGED', { message: 'The list of machines in the snapshot cannot be read.' });

export const noImage = () => new AppError('conflict', 'The snapshot holds no image that can be read.');

/** Which volume of an image files are read from. */
export interface VolumeQuery {
  machine?: string | undefined;
  disk: string;
  partition?: number | undefined;
}

interface OpenedImage extends OpenedMachine {
  /** In the snapshot. */
  path: string;
  content: FileContent;
  /** By disk and partition. */
  volumes: Map<string, Promise<FileSystemReader>>;
}

interface KeptImage {
  key: string;
  reader: RepositoryReader;
  opening: Promise<OpenedImage>;
  expiry: Timer;
}

/** An image of about a terabyte. The positions of its parts take 64 bytes each. */
const PARTS_MAX = 1_000_000;
const KEPT_MAX = 3;
const IDLE_MS = 120_000;
/** Each volume keeps a cache of some megabytes. */
const VOLUMES_MAX = 4;

/**
 * Images whose files are being looked at. To open one reads the whole index of its repository, so it is kept while
 * a user goes from folder to folder.
 */
export class OpenedImages {
  /** In the order of their last use. */
  #kept: KeptImage[] = [];

  /** The files of a volume. Throws FILE_SYSTEM_UNSUPPORTED for one that cannot be read here. */
  async open(
    reader: RepositoryReader,
    snapshot: BackupSnapshot,
    query: VolumeQuery,
    signal: AbortSignal,
  ): Promise<FileSystemReader> {
    return (await this.openVolume(reader, snapshot, query, { fields: 'query', signal })).files;
  }

  /**
   * The same with the path of the image in the snapshot.
   * @param fields  where the request names the volume, for people
   */
  async openVolume(
    reader: RepositoryReader,
    snapshot: BackupSnapshot,
    { machine, disk, partition }: VolumeQuery,
    { fields, signal }: { fields: string; signal: AbortSignal },
  ): Promise<{ files: FileSystemReader; imagePath: string }> {
    const image = await this.#image(reader, snapshot, machine, { field: `${fields}.machine`, signal });
    const place = volumeIn(image, { disk, partition }, fields);
    return { files: await this.#volume(image, `${disk} ${place.offset}`, place), imagePath: image.path };
  }

  #volume(
    image: OpenedImage,
    key: string,
    place: { offset: number; sizeBytes: number },
  ): Promise<FileSystemReader> {
    const known = image.volumes.get(key);
    if (known !== undefined) return known;
    const opening = openExt(volumeOf(image.content, place));
    image.volumes.set(key, opening);
    opening.catch(() => image.volumes.delete(key));
    for (const oldest of image.volumes.keys()) {
      if (image.volumes.size <= VOLUMES_MAX) break;
      image.volumes.delete(oldest);
    }
    return opening;
  }

  #image(
    reader: RepositoryReader,
    snapshot: BackupSnapshot,
    machine: string | undefined,
    about: { field: string; signal: AbortSignal },
  ): Promise<OpenedImage> {
    const key = `${snapshot.id} ${machine ?? ''}`;
    const known = this.#kept.find((each) => each.key === key && each.reader === reader);
    const kept = known ?? this.#begin(key, reader, openImage(reader, snapshot, machine, about));
    this.#kept = [...this.#kept.filter((each) => each !== kept), kept];
    while (this.#kept.length > KEPT_MAX) this.#forget(this.#kept[0]);
    kept.expiry.refresh();
    return kept.opening;
  }

  #begin(key: string, reader: RepositoryReader, opening: Promise<OpenedImage>): KeptImage {
    const expiry = clock.setTimeout(() => this.#forget(kept), IDLE_MS).unref();
    const kept: KeptImage = { key, reader, opening, expiry };
    opening.catch(() => this.#forget(kept));
    return kept;
  }

  #forget(kept: KeptImage | undefined): void {
    clock.clear(kept?.expiry);
    this.#kept = this.#kept.filter((each) => each !== kept);
  }
}

async function openImage(
  reader: RepositoryReader,
  snapshot: BackupSnapshot,
  machine: string | undefined,
  { field, signal }: { field: string; signal: AbortSignal },
): Promise<OpenedImage> {
  const path = await imagePathIn(reader, snapshot, { machine, field, signal });
  const opened = await reader.openContent(
    { snapshotId: snapshot.engineId, path },
    { limits: { entries: 10, parts: PARTS_MAX }, signal },
  );
  if (opened === 'too_large') {
    throw new AppError('conflict', 'The image is too large to look into it. Restore its disk to a device.', {
      details: { code: 'TOO_LARGE' },
    });
  }
  if (opened.type !== 'file') throw noImage();
  return { ...(await openMachineIn(opened.content)), path, content: opened.content, volumes: new Map() };
}

function volumeIn(image: OpenedMachine, query: Omit<VolumeQuery, 'machine'>, fields: string) {
  const found = findVolume(image, query);
  if ('volume' in found) return found.volume;
  throw found.missing === 'disk'
    ? invalid(`${fields}.disk`, `must be a disk of the machine: ${found.known}`)
    : invalid(`${fields}.partition`, `must be one of the disk: ${found.known}`);
}
