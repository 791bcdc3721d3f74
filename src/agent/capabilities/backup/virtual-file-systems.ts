import { includePattern } from '../../../engine/index.ts';
import type { Mount } from '../../os/files/mounts.ts';

/**
 * Linux file systems that hold no files: their content is generated when it is read, and some of it is
 * endless. A backup leaves them out, also those of a chroot or a container below its sources.
 */

/** Folders that belong to the running system wherever they are mounted. */
const SYSTEM_FOLDERS = ['/proc', '/sys', '/dev', '/run'];

const VIRTUAL_TYPES = new Set([
  'proc',
  'sysfs',
  'devtmpfs',
  'devpts',
  'devfs',
  'cgroup',
  'cgroup2',
  'cpuset',
  'debugfs',
  'tracefs',
  'securityfs',
  'configfs',
  'pstore',
  'bpf',
  'efivarfs',
  'selinuxfs',
  'smackfs',
  'binfmt_misc',
  'fusectl',
  'mqueue',
  'hugetlbfs',
  'resctrl',
  'nsfs',
  'nfsd',
  'rpc_pipefs',
  'usbfs',
  'fuse.lxcfs',
  'fuse.gvfsd-fuse',
  'fuse.portal',
]);
/** File systems that hold files only until the next start. */
const MEMORY_TYPES = new Set(['tmpfs', 'ramfs']);

/** Paths are as `pathText` writes them. */
export interface Source {
  /** As the configuration names it. */
  path: string;
  /** The same path with symbolic links above it resolved. */
  real: string;
}

export interface LeftOut {
  path: string;
  /** Type of the file system. */
  type: string;
}

export interface ChosenSources {
  paths: string[];
  /** Exclude patterns for restic. They come after those of the configuration, which could include something again. */
  patterns: string[];
  /** Include patterns for a source below a virtual file system. They come before those of the configuration. */
  firstPatterns: string[];
  /** The virtual file systems below the sources. */
  leftOut: LeftOut[];
  /** Sources that lie in a virtual file system. */
  refused: LeftOut[];
}

/** Decides which sources are backed up, and what of them is left out. */
export function chooseSources(sources: readonly Source[], mounts: readonly Mount[]): ChosenSources {
  const visible = visibleMounts(mounts);
  const virtual = virtualFolders(visible);
  const chosen: Source[] = [];
  const refused: LeftOut[] = [];
  for (const source of sources) {
    const around = nearest(virtual, source.real);
    if (around === undefined || holdsFiles(source.real, around, visible)) chosen.push(source);
    else refused.push({ path: source.path, type: around.type });
  }
  const below = chosen.flatMap(({ path, real }) =>
    [...virtual.values()]
      .filter((folder) => folder.path !== real && isWithin(folder.path, real))
      .map(({ path: folder, type }) => ({ path: join(path, folder.slice(real.length)), real: folder, type })),
  );
  const leftOut = [...new Map(below.map((each) => [each.path, each])).values()];
  const patterns: string[] = [];
  const firstPatterns: string[] = [];
  for (const { path, real } of leftOut) {
    const exceptions = chosen.flatMap((other) =>
      isWithin(other.real, real) ? exceptionFor(other.path, path) : [],
    );
    (exceptions.length === 0 ? patterns : firstPatterns).push(`${includePattern(path)}/*`, ...exceptions);
  }
  return {
    paths: chosen.map(({ path }) => path),
    patterns,
    firstPatterns,
    leftOut: leftOut.map(({ path, type }) => ({ path, type })),
    refused,
  };
}

/**
 * A disk that is mounted below /run, or /dev/shm, can be a source beside one that contains /run or /dev. All
 * other entries of the folders on the way to it stay excluded.
 */
function exceptionFor(source: string, folder: string): string[] {
  if (!isWithin(source, folder)) return [];
  const names = source.slice(folder.length + 1).split('/');
  return names.flatMap((_name, n) => {
    const step = includePattern(join(folder, names.slice(0, n + 1).join('/')));
    return n < names.length - 1 ? [`!${step}`, `${step}/*`] : [`!${step}`];
  });
}

type Folders = ReadonlyMap<string, LeftOut>;

/** The outermost folders that belong to virtual file systems. */
function virtualFolders(mounts: ReadonlyMap<string, Mount>): Folders {
  const all = new Map(
    SYSTEM_FOLDERS.map((path) => [path, { path, type: mounts.get(path)?.type ?? path.slice(1) }]),
  );
  for (const { point: path, type } of mounts.values()) {
    if (VIRTUAL_TYPES.has(type) || (MEMORY_TYPES.has(type) && isOfSystem(path, mounts))) {
      all.set(path, { path, type });
    }
  }
  return new Map([...all].filter(([path]) => nearest(all, dirname(path)) === undefined));
}

/** Where a system, a chroot or a container mounts its processes, its devices and its sockets. */
function isOfSystem(path: string, mounts: ReadonlyMap<string, Mount>): boolean {
  const [, root] = /^(.*)\/(dev|run)$/.exec(path) ?? [];
  return root !== undefined && mounts.get(`${root}/proc`)?.type === 'proc';
}

/** Whether a file system with files, such as a disk or /dev/shm, is mounted between the virtual one and the source. */
function holdsFiles(real: string, around: LeftOut, mounts: ReadonlyMap<string, Mount>): boolean {
  const mount = nearest(mounts, real);
  return mount !== undefined && mount.point.length > around.path.length && !VIRTUAL_TYPES.has(mount.type);
}

/** The mounts that are visible: another one can be mounted over the same folder, or over one above it. */
function visibleMounts(mounts: readonly Mount[]): ReadonlyMap<string, Mount> {
  const ids = new Set(mounts.map(({ id }) => id));
  const at = new Map<string, Mount[]>();
  for (const mount of mounts) at.set(mount.point, [...(at.get(mount.point) ?? []), mount]);
  const visible = new Map<string, Mount>();
  for (const [point, here] of [...at].sort(([one], [other]) => one.length - other.length)) {
    const above = point === '/' ? undefined : nearest(visible, dirname(point));
    let top = here.find(({ parentId }) => (above === undefined ? !ids.has(parentId) : parentId === above.id));
    for (let next = top; next !== undefined; ) {
      top = next;
      const { id } = next;
      next = here.find((mount) => mount.parentId === id && mount.id !== id);
    }
    if (top !== undefined) visible.set(point, top);
  }
  return visible;
}

/** The mount at a folder, or at the nearest one above it. */
function nearest<T>(places: ReadonlyMap<string, T>, folder: string): T | undefined {
  for (let at = folder; ; at = dirname(at)) {
    const found = places.get(at);
    if (found !== undefined || at === '/') return found;
  }
}

const dirname = (path: string) => path.slice(0, path.lastIndexOf('/')) || '/';

const isWithin = (path: string, folder: string) =>
  folder === '/' || path === folder || path.startsWith(`${folder}/`);

const join = (folder: string, rest: string) => `${folder === '/' ? '' : folder}/${rest.replace(/^\/+/, '')}`;
