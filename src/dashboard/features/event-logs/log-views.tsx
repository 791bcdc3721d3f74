import { useLocalStorage } from '@mantine/hooks';
import { z } from 'zod';
import { SavedViews } from '../../ui/index.ts';
import { useMe } from '../../session.ts';
import type { OsType } from '../../../protocol/index.ts';
import { hasConditions, LogSearch, isBare, rememberedPart, viewOf } from './log-search.ts';
import { parseStored } from './viewer-toolbar.tsx';

/** An operating system, or the page that asks many devices. */
export type LogSystem = OsType | 'fleet';

/** Conditions under a name. The logs of Windows mean nothing on Linux, so each system has views of its own. */
export function LogViews({
  search,
  system,
  onApply,
}: {
  search: LogSearch;
  system: LogSystem;
  onApply: (search: LogSearch) => void;
}) {
  return (
    <SavedViews
      name={`event-logs-${system}`}
      current={viewOf(search)}
      hint="A view keeps the conditions under a name, for this system."
      canSave={hasConditions(search)}
      onOpen={(view) => onApply(LogSearch.parse(view))}
    />
  );
}

/** What this person has read last of one system. */
const Memory = z.object({
  last: LogSearch.catch({}),
  pinned: z.array(z.string()).catch([]),
  recent: z.array(z.string()).catch([]),
});
type LogMemory = z.output<typeof Memory>;

const EMPTY: LogMemory = { last: {}, pinned: [], recent: [] };
const RECENT = 5;

/** Kept in this browser. */
export function useLogMemory(system: OsType) {
  const { user } = useMe();
  const [memory, set] = useLocalStorage<LogMemory>({
    key: `muster-logs-${user.id}-${system}`,
    defaultValue: EMPTY,
    deserialize: parseStored(Memory, EMPTY),
    getInitialValueInEffect: false,
  });
  return {
    memory,
    /** The next device of this system begins with these conditions. */
    remember: (search: LogSearch) =>
      set((known) => {
        const { log } = search;
        const recent =
          log === undefined
            ? known.recent
            : [log, ...known.recent.filter((name) => name !== log)].slice(0, RECENT);
        const last = rememberedPart(search);
        const isSame = JSON.stringify([last, recent]) === JSON.stringify([known.last, known.recent]);
        return isSame ? known : { ...known, last, recent };
      }),
    togglePin: (log: string) =>
      set((known) => ({
        ...known,
        pinned: known.pinned.includes(log)
          ? known.pinned.filter((name) => name !== log)
          : [...known.pinned, log],
      })),
  };
}

/** The first state of a page: that of its address if it has one, or else the last one used. */
export const beginning = (search: LogSearch, memory: LogMemory): LogSearch =>
  isBare(search) ? memory.last : search;
