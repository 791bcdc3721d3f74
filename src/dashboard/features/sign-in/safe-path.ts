/** A path of this dashboard; the overview in place of anything that could lead elsewhere. */
export function safePath(path: string | undefined): string {
  if (path === undefined || !path.startsWith('/')) return '/';
  const url = new URL(path, window.location.origin);
  return url.origin === window.location.origin ? url.pathname + url.search : '/';
}
