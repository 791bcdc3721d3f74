import type { CommandPayload } from '../../../../protocol/index.ts';

export type Overwrite = CommandPayload<'backup.restore'>['overwrite'];

/** What a name stands for: what the snapshot has, or what the target has. */
export interface Found {
  kind: 'folder' | 'file' | 'other';
  /** When the content was changed, in nanoseconds since 1970. */
  changedNs: bigint;
}

/**
 * What happens with one name of a snapshot whose place is taken:
 *
 * - `enter`: both are folders. The one that is there stays as it is, and each name in it is decided by itself.
 * - `replace`: a file or a link that is there is removed.
 * - `keep`: the file or link of the target stays.
 * - `blocked`: a folder of the snapshot and something else stand against each other, and the rule does not allow to
 *   remove the other one. A folder of the target is never removed.
 */
export type Decision = 'enter' | 'replace' | 'keep' | 'blocked';

export function decideOverwrite(rule: Overwrite, snapshot: Found, target: Found): Decision {
  if (target.kind === 'folder') return snapshot.kind === 'folder' ? 'enter' : 'blocked';
  if (rule === 'always') return 'replace';
  if (snapshot.kind === 'folder') return 'blocked';
  if (rule === 'never') return 'keep';
  return snapshot.changedNs > target.changedNs ? 'replace' : 'keep';
}
