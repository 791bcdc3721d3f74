/** Which blocks of an ext file system hold nothing, by what `dumpe2fs` prints of it. */

export interface FreeBlocks {
  /** In bytes, from the start of the file system. Ascending, apart from each other; the end is excluded. */
  free: Extent[];
}

export interface Extent {
  start: number;
  end: number;
}

const EXTENTS_MAX = 4_000_000;

/**
 * `undefined` where the file system cannot be trusted to know it: it was not unmounted in good order, its journal has
 * something to say, it counts in clusters, or its parts contradict each other.
 */
export async function parseFreeBlocks(lines: AsyncIterable<string>): Promise<FreeBlocks | undefined> {
  const facts = new Map<string, string>();
  const free: Extent[] = [];
  let blocks = 0;
  let isInHead = true;
  for await (const line of lines) {
    if (line.startsWith('Group ')) isInHead = false;
    if (isInHead) {
      const [, name, value] = /^([A-Z][^:]+):\s+(.*)$/.exec(line) ?? [];
      if (name !== undefined && value !== undefined && !facts.has(name)) facts.set(name, value.trim());
      continue;
    }
    const [, list] = /^ {2}Free blocks: (.*)$/.exec(line) ?? [];
    for (const range of list?.split(', ').filter((each) => each !== '') ?? []) {
      const [, first, last = first] = /^(\d+)(?:-(\d+))?$/.exec(range.trim()) ?? [];
      if (first === undefined) return undefined;
      const extent = { start: Number(first), end: Number(last) + 1 };
      const before = free.at(-1);
      if (extent.end <= extent.start || extent.start < (before?.end ?? 0)) return undefined;
      blocks += extent.end - extent.start;
      if (before?.end === extent.start) before.end = extent.end;
      else free.push(extent);
      if (free.length > EXTENTS_MAX) return undefined;
    }
  }
  const number = (name: string) => Number(facts.get(name) ?? Number.NaN);
  const blockBytes = number('Block size');
  const features = facts.get('Filesystem features')?.split(' ') ?? ['bigalloc'];
  const isTrusted =
    facts.get('Filesystem state') === 'clean' &&
    !features.includes('needs_recovery') &&
    !features.includes('bigalloc') &&
    number('Free blocks') === blocks &&
    blockBytes >= 1024 &&
    (free.at(-1)?.end ?? 0) <= number('Block count');
  if (!isTrusted) return undefined;
  return { free: free.map(({ start, end }) => ({ start: start * blockBytes, end: end * blockBytes })) };
}
