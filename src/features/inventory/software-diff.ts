/** The difference between the known list of installed software and a new one. Pure. */

export interface Installed {
  name: string;
  /** Empty if it is not known. */
  version: string;
  publisher: string | null;
  /** In ms. */
  installedAt: number | null;
  /** The source that listed it; null if the agent named none. */
  source: string | null;
}

export interface SoftwareChange {
  change: 'installed' | 'updated' | 'removed';
  name: string;
  version: string;
  previousVersion: string;
}

export interface SoftwareDiff<Known extends Installed> {
  added: Installed[];
  removed: Known[];
  /** The same version with another publisher or date. */
  corrected: { known: Known; now: Installed }[];
  /** For display: an added and a removed version of one title make an update. */
  changes: SoftwareChange[];
}

/**
 * The new list, with what is known from sources that could not be read this time. Of a title whose source is not known, it
 * may be one of them.
 */
export function withUnread<Known extends Installed>(
  known: readonly Known[],
  now: readonly Installed[],
  failed: ReadonlySet<string>,
): Installed[] {
  if (failed.size === 0) return [...now];
  const isUnread = ({ source }: Known) => source === null || failed.has(source);
  const reported = new Set(now.map(keyOf));
  return [...now, ...known.filter((entry) => isUnread(entry) && !reported.has(keyOf(entry)))];
}

// Stored text never contains NUL.
const keyOf = ({ name, version }: Installed) => `${name}\0${version}`;

export function softwareDiff<Known extends Installed>(
  known: readonly Known[],
  now: readonly Installed[],
): SoftwareDiff<Known> {
  const wanted = byKey(now);
  const before = new Map(known.map((entry) => [keyOf(entry), entry]));
  const added = [...wanted].filter(([key]) => !before.has(key)).map(([, entry]) => entry);
  const removed = known.filter((entry) => !wanted.has(keyOf(entry)));
  const corrected = known.flatMap((entry) => {
    const reported = wanted.get(keyOf(entry));
    const isSame =
      reported === undefined ||
      (reported.publisher === entry.publisher &&
        reported.installedAt === entry.installedAt &&
        reported.source === entry.source);
    return isSame ? [] : [{ known: entry, now: reported }];
  });
  return { added, removed, corrected, changes: changesOf(added, removed) };
}

/** Entries reported twice, such as for two users, count once: the first, completed by the second. */
function byKey(entries: readonly Installed[]): Map<string, Installed> {
  const merged = new Map<string, Installed>();
  for (const entry of entries) {
    const first = merged.get(keyOf(entry));
    merged.set(keyOf(entry), {
      ...entry,
      publisher: first?.publisher ?? entry.publisher,
      installedAt: first?.installedAt ?? entry.installedAt,
      source: first?.source ?? entry.source,
    });
  }
  return merged;
}

function changesOf(added: readonly Installed[], removed: readonly Installed[]): SoftwareChange[] {
  const come = versionsByName(added);
  const gone = versionsByName(removed);
  return [...new Set([...come.keys(), ...gone.keys()])].sort(compare).flatMap((name) => {
    const to = come.get(name) ?? [];
    const from = gone.get(name) ?? [];
    return Array.from({ length: Math.max(to.length, from.length) }, (_, index): SoftwareChange => {
      const [version, previousVersion] = [to[index], from[index]];
      if (previousVersion === undefined) {
        return { change: 'installed', name, version: version ?? '', previousVersion: '' };
      }
      if (version === undefined) return { change: 'removed', name, version: '', previousVersion };
      return { change: 'updated', name, version, previousVersion };
    });
  });
}

function versionsByName(entries: readonly Installed[]): Map<string, string[]> {
  const versions = new Map<string, string[]>();
  for (const { name, version } of entries) versions.set(name, [...(versions.get(name) ?? []), version]);
  for (const list of versions.values()) list.sort(compare);
  return versions;
}

const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);
