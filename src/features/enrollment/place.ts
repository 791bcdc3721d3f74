import { tellingSerial, isSharedId, SHARED_IDS } from '../../protocol/index.ts';
import { createHash } from 'node:crypto';

/** Decides which device a machine is that enrolls with a machine id (SHAPES 5). Pure. */

/** A device that has the machine id, or was enrolled with it while another one had it. */
export interface Candidate {
  id: string;
  /** Whether the machine id is its own. At most one device has it. */
  ownsId: boolean;
  isPending: boolean;
  serialNumber: string | undefined;
  /** Whether a program is connected as this device and alive. */
  isHeld: boolean;
  /** Whether the machine has sent a token of this device. */
  isProven: boolean;
}

export type Place<C extends Candidate> =
  | { kind: 'new' }
  /** The machine is this device, with a new token. */
  | { kind: 'known'; device: C }
  /** The machine becomes a device of its own that waits for approval. */
  | { kind: 'pending'; conflictsWith: C };

export function placeOf<C extends Candidate>(
  candidates: readonly C[],
  serialNumber: string | undefined,
): Place<C> {
  const proven = candidates.find(({ isProven }) => isProven);
  if (proven !== undefined) return { kind: 'known', device: proven };
  const serial = tellingSerial(serialNumber);
  /** Lower is more likely. */
  const rank = (candidate: C) => {
    const isSameMachine = serial !== undefined && tellingSerial(candidate.serialNumber) === serial;
    return (candidate.isPending ? 4 : 0) + (isSameMachine ? 0 : 2) + (candidate.ownsId ? 0 : 1);
  };
  const byRank = candidates.toSorted((a, b) => rank(a) - rank(b));
  const free = byRank.find(({ isHeld }) => !isHeld);
  if (free !== undefined) return { kind: 'known', device: free };
  const owner = candidates.find(({ ownsId }) => ownsId) ?? byRank[0];
  return owner === undefined ? { kind: 'new' } : { kind: 'pending', conflictsWith: owner };
}

const ZEROS = '0'.repeat(32);

/**
 * Ids that agents of earlier releases have hashed although they name many machines, in each form in which systems print
 * them.
 */
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

/** As the agent hashes the id of its machine (`src/agent/os/machine.ts`). */
const hashed = (raw: string) => createHash('sha256').update(`muster-agent machine id:${raw}`).digest('hex');
const SHARED_HASHES = new Set(RAW.map(hashed));

/** The machine id, or `undefined` if it names no machine, or many. */
export function tellingMachineId(id: string | null | undefined): string | undefined {
  const trimmed = id?.trim() ?? '';
  return isSharedId(trimmed) || SHARED_HASHES.has(trimmed.toLowerCase()) ? undefined : trimmed;
}
