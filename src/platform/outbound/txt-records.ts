import { Resolver } from 'node:dns/promises';
import { clock } from '../../clock.ts';
import { OutboundError } from './outbound-error.ts';

/** The time limit of one look-up with all its tries, whatever the name servers of the domain do. */
const LIMIT_MS = 8000;
/** The errors of the DNS if there is no such record. */
const ABSENT = new Set(['ENOTFOUND', 'ENODATA']);

export type TxtLookup = (name: string) => Promise<string[]>;

/**
 * Looks up TXT records, each as one text; none if the name has none. An answer of the DNS has at most 64 kB, so there
 * is no other bound.
 * @throws OutboundError  `timed_out` if no name server answers, or none that knows
 */
export function createTxtLookup({
  nameServers,
  limitMs = LIMIT_MS,
}: {
  /** For tests, in place of those of the machine. */
  nameServers?: readonly string[] | undefined;
  limitMs?: number;
}): TxtLookup {
  return async (name) => {
    const resolver = new Resolver({ timeout: 2000, tries: 2 });
    if (nameServers !== undefined) resolver.setServers(nameServers);
    const limit = clock.setTimeout(() => resolver.cancel(), limitMs);
    try {
      const records = await resolver.resolveTxt(name);
      return records.map((strings) => strings.join(''));
    } catch (error) {
      if (error instanceof Error && 'code' in error && ABSENT.has(String(error.code))) return [];
      throw new OutboundError('timed_out');
    } finally {
      clock.clear(limit);
    }
  };
}
