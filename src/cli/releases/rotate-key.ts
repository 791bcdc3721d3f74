import { rotateReleaseKey } from '../../features/releases/operator.ts';
import type { CommandIo } from '../io.ts';
import { withReleases } from './with-releases.ts';

export async function rotateKey(io: CommandIo, how: { vouched: boolean }): Promise<void> {
  const { id, signedBy } = await withReleases(io, (parts) => rotateReleaseKey(parts, how));
  const trust =
    signedBy === undefined
      ? 'It begins a new chain: enroll devices again, so that they trust it.'
      : `It is signed by ${signedBy}, so that enrolled devices trust it.`;
  io.stdout.write(`New releases will be signed with the key ${id}. ${trust}\n`);
}
