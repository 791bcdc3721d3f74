import { createHash } from 'node:crypto';
import { isSharedId, SHARED_IDS } from '../../protocol/index.ts';

const ZEROS = '0'.repeat(32);

/** What agents of earlier releases have hashed although it names many machines, in each form in which systems print it. */
const RAW = [
  '',
  'uninitialized',
  ZEROS,
  'f'.repeat(32),
  '00000000-0000-0000-0000-000000000000',
  'ffffffff-ffff-ffff-ffff-ffffffffffff',
  ...SHARED_IDS,
].flatMap((id) => {
  const bare = id.replaceAll('-', '');
  return [id, id.toUpperCase(), bare, bare.toUpperCase()];
});

/** As the agent hashes the id of its machine (`src/agent/os/machine/machine-id.ts`). */
const hashed = (raw: string) => createHash('sha256').update(`muster-agent machine id:${raw}`).digest('hex');
const SHARED_HASHES = new Set(RAW.map(hashed));

/** The machine id, or `undefined` where it names no machine, or many. */
export function tellingMachineId(id: string | null | undefined): string | undefined {
  const trimmed = id?.trim() ?? '';
  return isSharedId(trimmed) || SHARED_HASHES.has(trimmed.toLowerCase()) ? undefined : trimmed;
}
