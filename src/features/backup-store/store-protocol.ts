/** What a request of restic's REST protocol names, read from its path as it was sent. */

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
