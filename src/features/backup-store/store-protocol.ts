/** The repository and object that a request of restic's REST protocol names, read from its path as it was sent. */

/** The folders of a repository. All but `config` hold objects whose name is the SHA-256 of their content. */
export const FOLDERS = ['keys', 'data', 'index', 'snapshots', 'locks'] as const;
export type Folder = (typeof FOLDERS)[number];
export type ObjectType = Folder | 'config';
export const OBJECT_TYPES: readonly ObjectType[] = ['config', ...FOLDERS];

export interface ObjectName {
  type: ObjectType;
  /** 64 hexadecimal digits, or `config`. */
  name: string;
}

export type Target = ({ kind: 'object' } & ObjectName) | { kind: 'list'; type: Folder } | { kind: 'create' };

export interface StorePath {
  repositoryId: string;
  target: Target;
}

// Nothing is decoded: a path with `%`, `..`, an absolute name or a character more is none of the protocol.
const PATH =
  /^\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\/(?:(config)|(keys|data|index|snapshots|locks)\/([0-9a-f]{64})?|(\?create=true))$/;
const LONGEST = 200;

const CONFIG = { kind: 'object', type: 'config', name: 'config' } as const;

/** `undefined` for whatever is not a path of the protocol. */
export function parseStorePath(path: string): StorePath | undefined {
  const [, repositoryId, config, folder, name, create] = path.length > LONGEST ? [] : (PATH.exec(path) ?? []);
  if (repositoryId === undefined) return undefined;
  if (create !== undefined) return { repositoryId, target: { kind: 'create' } };
  if (config !== undefined) return { repositoryId, target: CONFIG };
  const type = FOLDERS.find((one) => one === folder);
  if (type === undefined) return undefined;
  if (name === undefined) return { repositoryId, target: { kind: 'list', type } };
  return { repositoryId, target: { kind: 'object', type, name } };
}

/** Where an object is in a repository, as restic lays it out: the folder of the store is a plain restic repository. */
export function placeOf({ type, name }: ObjectName): string {
  if (type === 'config') return 'config';
  return type === 'data' ? `data/${name.slice(0, 2)}/${name}` : `${type}/${name}`;
}

/** Where it is once it was deleted, by the day (UTC) of that. */
export const trashPlaceOf = (object: ObjectName, trashedAt: Date): string =>
  `trash/${trashedAt.toISOString().slice(0, 10)}/${placeOf(object)}`;

const KIB = 1024;
const MIB = 1024 * KIB;

/** No object of restic comes near these sizes, which bound what one request can send. Packs have at most 128 MiB. */
export const LARGEST: Readonly<Record<ObjectType, number>> = {
  config: 64 * KIB,
  keys: 64 * KIB,
  locks: 64 * KIB,
  snapshots: 16 * MIB,
  index: 256 * MIB,
  data: 256 * MIB,
};

/**
 * The rights of a credential in its repository.
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

/** An object as the table knows it. */
export interface KnownObject {
  size: number;
  credentialId: string | null;
  /** The role of the credential that wrote it, if that is still known. */
  writerRole: Role | null;
  arrivedAt: Date;
  trashedAt: Date | null;
  lostAt: Date | null;
}

/** The credential of a request, and what the store has under the name that it asks for. */
export interface StoreAccess {
  credentialId: string;
  role: Role;
  repositoryId: string;
  orgId: string;
  partnerId: string;
  jobId: string | null;
  asOf: Date | null;
  snapshotName: string | null;
  expiresAt: Date;
  isPruning: boolean;
  object: KnownObject | undefined;
}
