import { createHash } from 'node:crypto';
import { MachineErrorCode, type MachineCheckpoint } from '../../../../protocol/index.ts';
import { AgentError } from '../../../core/agent-error.ts';
import { firstCharacters } from '../../../core/plain-text.ts';
import type { WantedCheckpoint } from '../hypervisor.ts';
import type { Domain } from './domain.ts';
import type { Virsh } from './virsh.ts';

/** States within the disks of a machine. libvirt calls them snapshots, and knows them by their names, which can be any text. */

const CHANGE_MS = 3_600_000;

/** Columns that are apart by spaces, which names may have as well: so it goes by the time between them. */
const LINE = /^ *(.+?) {2,}(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}) {2,}\S+(?: \S+)*(?: {2,}(\S.*?))? *$/;

const idOf = (name: string) => createHash('sha256').update(name).digest('hex').slice(0, 32);

type Named = MachineCheckpoint & { whole: string };

export async function listCheckpoints(run: Virsh, machineId: string, signal: AbortSignal): Promise<Named[]> {
  const lines = (await run(['snapshot-list', '--domain', machineId, '--parent'], { signal })).split('\n');
  return lines.flatMap((line) => {
    const [, name, createdAt, parent] = LINE.exec(line) ?? [];
    if (name === undefined) return [];
    return [
      {
        id: idOf(name),
        name: firstCharacters(name, 256),
        whole: name,
        parentId: parent === undefined ? null : idOf(parent),
        createdAt: createdAt ?? null,
      },
    ];
  });
}

export async function changeCheckpoint(
  run: Virsh,
  domain: Domain,
  { action, checkpointName, checkpointId }: WantedCheckpoint,
  signal: AbortSignal,
): Promise<void> {
  const limits = { signal, timeoutMs: CHANGE_MS };
  if (action === 'create') {
    const raw = domain.disks.find(({ format, isReadOnly }) => format !== 'qcow2' && !isReadOnly);
    if (raw !== undefined) {
      throw new AgentError(
        MachineErrorCode.incompatible,
        `A checkpoint needs disks in the format qcow2, and ${raw.target} is ${raw.format ?? 'another one'}.`,
      );
    }
    const named = checkpointName === undefined ? [] : [`--name=${checkpointName}`];
    await run(['snapshot-create-as', '--domain', domain.id, ...named], limits);
    return;
  }
  const found = (await listCheckpoints(run, domain.id, signal)).find(({ id }) => id === checkpointId);
  if (found === undefined) {
    throw new AgentError(MachineErrorCode.checkpointMissing, 'The machine has no such checkpoint.');
  }
  const command = action === 'delete' ? 'snapshot-delete' : 'snapshot-revert';
  await run([command, '--domain', domain.id, `--snapshotname=${found.whole}`], limits);
}
