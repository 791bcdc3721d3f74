/** Where paths are on a device and in its snapshots. Snapshots write `C:\Data` as `/C/Data`. */

const isWindows = (path: string) => /^[A-Za-z]:[\\/]/.test(path);

export function inSnapshot(path: string): string {
  if (!isWindows(path)) return withoutSlash(path);
  const rest = path.slice(2).replaceAll('\\', '/');
  return withoutSlash(`/${path.slice(0, 1).toUpperCase()}${rest}`);
}

export function onDevice(path: string, osType: 'windows' | 'macos' | 'linux'): string {
  if (osType !== 'windows' || isWindows(path)) return path;
  const [, drive = 'C', rest = ''] = /^\/([A-Za-z])(\/.*)?$/.exec(path) ?? [];
  return `${drive}:${(rest === '' ? '/' : rest).replaceAll('/', '\\')}`;
}

/** Where a path of a snapshot comes to below a folder of the device. */
export function below(folder: string, path: string): string {
  if (isWindows(folder)) return folder.replace(/[\\/]$/, '') + inSnapshot(path).replaceAll('/', '\\');
  return withoutSlash(folder) + inSnapshot(path);
}

const withoutSlash = (path: string) => (path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path);
