import type { ObjectType, Target } from './object-name.ts';

/**
 * What a credential allows in its repository.
 *
 * - `device`: appends. It writes neither keys nor the configuration, deletes only locks of its own, and creates one
 *   snapshot.
 * - `vault`: a device that copies into a vault. As `device`, but with a snapshot for each that it copies.
 * - `server`: everything. What it deletes goes to the trash.
 * - `reader`: reads. Its locks exist in memory only.
 * - `as-of`: reads what the store had received at a time, with what was deleted since. Its locks exist in memory only.
 */
export type Role = 'device' | 'vault' | 'server' | 'reader' | 'as-of';

/** Roles of devices that write, which a prune excludes. */
export const WRITES_AS_DEVICE: ReadonlySet<Role> = new Set(['device', 'vault']);
export type Action = 'read' | 'write' | 'delete';

/**
 * `own_lock`: only if the lock was written with the same credential. `memory_lock`: on the locks that the store keeps in
 * memory for this credential.
 */
export type Decision = 'allow' | 'own_lock' | 'memory_lock' | 'forbid';

const DEVICE_WRITES: readonly ObjectType[] = ['data', 'index', 'snapshots', 'locks'];

export function decide(role: Role, action: Action, target: Target): Decision {
  if (action === 'read') return target.kind === 'create' ? 'forbid' : 'allow';
  if (target.kind === 'list') return 'forbid';
  if (role === 'server') return isServers(action, target) ? 'allow' : 'forbid';
  if (target.kind === 'create') return 'forbid';
  if (WRITES_AS_DEVICE.has(role)) return ofDevice(action, target.type);
  return target.type === 'locks' ? 'memory_lock' : 'forbid';
}

/** The configuration of a repository is never deleted: nothing in it could be opened any more. */
function isServers(action: 'write' | 'delete', target: Exclude<Target, { kind: 'list' }>): boolean {
  if (action === 'write') return true;
  return target.kind === 'object' && target.type !== 'config';
}

function ofDevice(action: 'write' | 'delete', type: ObjectType): Decision {
  if (action === 'write') return DEVICE_WRITES.includes(type) ? 'allow' : 'forbid';
  return type === 'locks' ? 'own_lock' : 'forbid';
}
