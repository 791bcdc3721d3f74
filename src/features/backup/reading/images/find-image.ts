import { EngineError, MACHINE_FILE, MACHINE_PATH, type RepositoryReader } from '../../../../engine/index.ts';
import { AppError, invalid, notFound } from '../../../../platform/errors.ts';
import { MACHINE_MANIFEST, MachineManifest } from '../../../../protocol/index.ts';
import type { BackupSnapshot } from '../../snapshots/snapshot.model.ts';

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

/** It lies in the folder that was backed up. Those who hold the key of a repository can write anything there. */
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
